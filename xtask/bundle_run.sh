#!/usr/bin/env bash
# Runs the tests and examples of this bundle, and says at the end what failed. Needs nothing but
# this folder.
set -u

usage() {
    cat <<'TEXT'
./run [OPTIONS] [NAME ...] [-- ARGUMENT ...]

  NAME           only programs whose name contains this
  --list         says what there is
  --wrap TOOL    runs each program under a tool: --wrap 'compute-sanitizer --tool memcheck'
  --bench        the benchmarks too
  --only KIND    only this kind: test, example or bench
  -- ARGUMENT    for each test program: a part of a test's name, --nocapture, ...

With MOYE_REQUIRE_GPU=1 a test that finds no GPU fails; without it, it says that it is skipped. With MOYE_DEVICE=gpu tests that run on
the simulator too leave it out, which saves most of the time under a tool.
TEXT
}

here=$(cd "$(dirname "$0")" && pwd)
wrap=() kinds="test example" names=() arguments=() list=
while [ $# -gt 0 ]; do
    case $1 in
    --list) list=1 ;;
    --wrap)
        read -r -a wrap <<<"${2:?--wrap needs a tool}"
        shift
        ;;
    --bench) kinds="$kinds bench" ;;
    --only)
        kinds=${2:?--only needs a kind}
        shift
        ;;
    --help | -h) usage && exit ;;
    --)
        shift
        arguments=("$@")
        break
        ;;
    -*) echo "error: there is no option $1" >&2 && usage >&2 && exit 2 ;;
    *) names+=("$1") ;;
    esac
    shift
done
# The sanitizer exits with 0 after errors, unless an option says otherwise.
case "${wrap[*]-}" in
*compute-sanitizer*--error-exitcode*) ;;
*compute-sanitizer*) wrap+=(--error-exitcode 86) ;;
esac
# Tests of error messages make calls that fail on purpose; memcheck would count those. It still
# checks memory.
case "${wrap[*]-}" in
*--report-api-errors* | *racecheck* | *initcheck* | *synccheck*) ;;
*compute-sanitizer*) wrap+=(--report-api-errors no) ;;
esac

wanted() {
    [ ${#names[@]} -eq 0 ] && return
    local name
    for name in "${names[@]}"; do
        case $1 in *"$name"*) return ;; esac
    done
    return 1
}

# The programs are packed, in pieces that several may have. They are unpacked one by one, to a
# folder that goes when this ends; the program `moye`, which tests start, lies there throughout.
unpacked=$(mktemp -d) || exit
trap 'rm -rf "$unpacked"' EXIT
unpack() {
    local to="$unpacked/$1/$2"
    shift 2
    mkdir -p "$(dirname "$to")" && (cd "$here/pieces" && cat "$@") | gzip -dc >"$to" && chmod +x "$to"
}
if [ -z "$list" ]; then
    while read -r kind name _ pieces; do
        # shellcheck disable=SC2086 # names of pieces have no spaces
        [ "$kind" != bin ] || unpack bin "$name" $pieces || exit
    done <"$here/list"
fi
export MOYE_BUNDLE=$unpacked
failed=() count=0
while read -r kind name package pieces; do
    case " $kinds " in *" $kind "*) ;; *) continue ;; esac
    wanted "$name" || continue
    count=$((count + 1))
    if [ -n "$list" ]; then
        echo "$kind $name"
        continue
    fi
    echo "== $kind $name"
    given=()
    case $kind in
    test) given=(${arguments[@]+"${arguments[@]}"}) ;;
    bench) given=(--bench ${arguments[@]+"${arguments[@]}"}) ;;
    esac
    # Tests start in their package's folder and know it, as from cargo.
    # shellcheck disable=SC2086
    (unpack "$kind" "$name" $pieces && cd "$here/files/$package" && export CARGO_MANIFEST_DIR="$PWD" &&
        exec ${wrap[@]+"${wrap[@]}"} "$unpacked/$kind/$name" ${given[@]+"${given[@]}"}) </dev/null
    code=$?
    rm -f "$unpacked/$kind/$name"
    [ $code -eq 0 ] || failed+=("$kind $name (exit code $code)")
done <"$here/list"

[ -n "$list" ] && exit
if [ $count -eq 0 ]; then
    echo "error: no program's name contains: ${names[*]-}" >&2
    exit 2
fi
echo
echo "== summary: $((count - ${#failed[@]})) of $count ok"
for name in ${failed[@]+"${failed[@]}"}; do
    echo "FAILED  $name"
done
[ ${#failed[@]} -eq 0 ]
