//! Kernels that copy elements: each element is read and written once, by the widest possible
//! access.

use super::function;
use rstest::rstest;

#[rstest]
fn the_copies_move_each_element_once(#[values("sm_80", "sm_90a")] arch: &str) {
    // 256 threads, each with 4 elements of a 32 x 32 tile.
    let copy = function(arch, "copy");
    assert_eq!(copy.count("ld.global"), 4, "{:?}", copy.instructions);
    assert_eq!(copy.count("st.shared"), 4, "{:?}", copy.instructions);
    assert_eq!(copy.count("ld.shared"), 4, "{:?}", copy.instructions);
    assert_eq!(copy.count("st.global"), 4, "{:?}", copy.instructions);
    let with_cp_async = function(arch, "copy_async");
    assert_eq!(with_cp_async.count("cp.async.ca.shared.global"), 4, "{:?}", with_cp_async.instructions);
    assert_eq!(
        with_cp_async.count("ld.global") + with_cp_async.count("st.shared"),
        0,
        "nothing goes through registers"
    );
    let transpose = function(arch, "transpose");
    assert_eq!(
        transpose.count("ld.global") + transpose.count("st.global"),
        8,
        "{:?}",
        transpose.instructions
    );
    for kernel in [copy, with_cp_async, transpose] {
        assert_eq!(kernel.count("bar.sync"), 1, "{}: one barrier between writing and reading", kernel.name);
    }
}

#[rstest]
fn lines_are_copied_by_words_of_16_bytes(#[values("sm_80", "sm_90a")] arch: &str) {
    for (name, lines) in [("copy_long_lines", 1), ("copy_lines", 8)] {
        let kernel = function(arch, name);
        // Whole tiles and those at an edge.
        assert_eq!(kernel.count("ld.global.v4.b32"), 2 * lines, "{:?}", kernel.instructions);
        assert_eq!(kernel.count("st.global.v4.b32"), 2 * lines, "{:?}", kernel.instructions);
        assert_eq!(kernel.count("ld.shared") + kernel.count("st.shared") + kernel.count("ld.local"), 0);
    }
}

#[test]
fn copies_and_transposes_at_memory_speed_begin_before_the_previous_kernel_has_ended() {
    for name in ["copy_long_lines", "copy_lines", "transpose_u8", "transpose_u128", "transpose_words_u16"] {
        assert_eq!(
            function("sm_90a", name).count("griddepcontrol"),
            2,
            "{name} waits, and lets others begin"
        );
        assert_eq!(function("sm_80", name).count("griddepcontrol"), 0, "{name}: sm_80 has none");
    }
}

/// By words of any elements, in whole tiles and others.
#[rstest]
#[case("transpose_u8", "u8", 16)]
#[case("transpose_u16", "b16", 16)]
#[case("transpose_u32", "b32", 16)]
#[case("transpose_u64", "b64", 16)]
#[case("transpose_u128", "v4.b32", 4)]
#[case("transpose_words_u8", "b32", 16)]
#[case("transpose_words_u16", "b32", 16)]
fn transposes_move_each_word_once_through_shared_memory(
    #[values("sm_80", "sm_90a")] arch: &str,
    #[case] name: &str,
    #[case] word: &str,
    #[case] words: usize,
) {
    let kernel = function(arch, name);
    for instruction in ["ld.global", "st.shared", "ld.shared", "st.global"] {
        let count = kernel.count(&format!("{instruction}.{word}"));
        assert_eq!(count, 2 * words, "{instruction}: {:?}", kernel.instructions);
        assert_eq!(kernel.count(instruction), count, "{instruction}: {:?}", kernel.instructions);
    }
    assert_eq!(kernel.count("bar.sync"), 2, "one between writing and reading");
}

#[rstest]
fn what_is_repacked_goes_through_shared_memory_only_where_it_is_transposed(
    #[values("sm_80", "sm_90a")] arch: &str,
    #[values("repack_u8", "repack_u16", "repack_u32", "repack_u64", "repack_u128")] name: &str,
) {
    let kernel = function(arch, name);
    // 64 x 64 elements for 256 threads, directly and through shared memory.
    assert_eq!(kernel.count("ld.global"), 2 * 16, "{:?}", kernel.instructions);
    assert_eq!(kernel.count("st.global"), 2 * 16, "{:?}", kernel.instructions);
    assert_eq!([kernel.count("st.shared"), kernel.count("ld.shared"), kernel.count("bar.sync")], [16, 16, 1]);
}

/// A 16-byte word of each of four rows, and of four columns; at an edge the elements of a word one
/// by one.
#[rstest]
fn what_is_transposed_stays_in_registers(#[values("sm_80", "sm_90a")] arch: &str) {
    let kernel = function(arch, "repack_transposed_u32");
    assert_eq!(kernel.count("ld.global.v4.b32"), 4, "{:?}", kernel.instructions);
    assert_eq!(kernel.count("st.global.v4.b32"), 4, "{:?}", kernel.instructions);
    assert_eq!([kernel.count("st.shared"), kernel.count("ld.shared"), kernel.count("bar.sync")], [0; 3]);
}

/// Four 16-byte words at a time and the word after them, the next lane's by a shuffle of each
/// register, and the rest of the line by bytes.
#[rstest]
fn lines_are_realigned_by_words(#[values("sm_80", "sm_90a")] arch: &str) {
    let kernel = function(arch, "repack_lines");
    assert_eq!(kernel.count("ld.global.cg.v4.b32"), 4 + 1, "{:?}", kernel.instructions);
    assert_eq!(kernel.count("st.global.v4.b32"), 4, "{:?}", kernel.instructions);
    assert_eq!(kernel.count("shfl.sync"), 4 * 4, "{:?}", kernel.instructions);
    assert_eq!(
        [kernel.count("ld.global.cg.u8"), kernel.count("st.global.u8")],
        [1, 1],
        "{:?}",
        kernel.instructions
    );
    let dependent = usize::from(arch == "sm_90a");
    for what in ["griddepcontrol.wait", "griddepcontrol.launch_dependents"] {
        assert_eq!(kernel.count(what), dependent, "{what}: {:?}", kernel.instructions);
    }
}
