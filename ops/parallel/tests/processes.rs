//! One process for each GPU or simulator: the results are the same, and a killed rank is named.

use moye::half::bf16;
use moye::{Device, Matrix, MatrixMut, Result};
use moye_parallel::{Form, Group, Operands, ParallelMatmul, Rendezvous};
use std::io::Write;
use std::net::{TcpListener, TcpStream};
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

const RANK: &str = "MOYE_TEST_RANK";
const FILE: &str = "MOYE_TEST_FILE";
const KILLED: &str = "MOYE_TEST_KILLED";
const APART: &str = "MOYE_TEST_APART";

fn on_gpus() -> bool {
    std::env::var("MOYE_DEVICE").is_ok_and(|device| device.starts_with("gpu"))
}

/// Multiplies as one of two ranks. Rank `r` has `r + 1` in A, or twice that, and 1 in B.
fn rank(rank: usize, killed: bool) -> Result<()> {
    let device = if on_gpus() { Device::gpu(rank as u32)? } else { Device::sim() };
    let rendezvous = Rendezvous::file(std::env::var(FILE).unwrap(), rank, 2);
    let group = Group::join(&device, rendezvous, Duration::from_secs(if killed { 4 } else { 30 }))?;
    let group = if std::env::var_os(APART).is_some() { group.without_peers() } else { group };
    let ([m, n, k], calls) = if on_gpus() { ([512, 256, 64], 30) } else { ([6, 16, 8], 4) };
    let stream = device.new_stream()?;
    for form in [Form::AllGather, Form::ReduceScatter, Form::AllReduce] {
        let product = match form {
            Form::AllGather => ParallelMatmul::all_gather(&group, [m, n, k]),
            Form::ReduceScatter => ParallelMatmul::reduce_scatter(&group, [m, n, k]),
            Form::AllReduce => ParallelMatmul::all_reduce(&group, [m, n, k]),
        };
        let product = product.build::<bf16>()?;
        let (rows_a, rows_c) = match form {
            Form::AllGather => (m / 2, m),
            Form::ReduceScatter => (m, m / 2),
            Form::AllReduce => (m, m),
        };
        let b = device.upload(&vec![bf16::ONE; n * k])?;
        let mut c = device.alloc_uninit::<bf16>(rows_c * n)?;
        for call in 0..calls {
            if killed && rank == 1 && call == calls / 2 {
                std::process::abort();
            }
            let factor = (1 + call % 2) as f32;
            let a = device.upload(&vec![bf16::from_f32((rank + 1) as f32 * factor); rows_a * k])?;
            let mut operands = [Operands {
                stream: &stream,
                a: Matrix::row_major(&a, rows_a, k)?,
                b: Matrix::row_major(&b, n, k)?,
                c: MatrixMut::row_major(&mut c, rows_c, n)?,
            }];
            // SAFETY: no other stream uses the matrices.
            unsafe { product.run(&mut operands)? };
            group.wait(&[&stream])?;
            for (at, value) in c.download()?.iter().enumerate() {
                let of = match form {
                    Form::AllGather => (1 + at / n / (m / 2)) as f32,
                    _ => 3.0,
                };
                assert_eq!(value.to_f32(), of * factor * k as f32, "{form:?}, call {call}, element {at}");
            }
        }
    }
    Ok(())
}

/// The outputs of both ranks; `apart` from each other's memory, by NCCL.
fn both(killed: bool, apart: bool) -> Vec<Output> {
    let file = std::env::temp_dir().join(format!("moye-ranks-{}-{killed}-{apart}", std::process::id()));
    let start = |rank: usize| {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "processes::ranks_in_processes", "--nocapture"]);
        command.env(RANK, rank.to_string()).env(FILE, &file).env(KILLED, u8::from(killed).to_string());
        command.envs(apart.then_some((APART, "1")));
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let ranks = [start(0), start(1)];
    ranks.into_iter().map(|rank| rank.wait_with_output().unwrap()).collect()
}

#[test]
fn ranks_in_processes() {
    if let Ok(number) = std::env::var(RANK) {
        let killed = std::env::var(KILLED).is_ok_and(|killed| killed == "1");
        match rank(number.parse().unwrap(), killed) {
            Ok(()) => println!("done"),
            Err(error) => println!("refused: {error}"),
        }
        return;
    }
    if on_gpus() && Device::gpu_count().is_ok_and(|count| count < 2) {
        println!("skipped: it needs two GPUs");
        return;
    }
    // Simulators of two processes are always apart.
    let ways = if on_gpus() { &[false, true][..] } else { &[false] };
    for &apart in ways {
        for output in both(false, apart) {
            let said = String::from_utf8_lossy(&output.stdout);
            assert!(said.contains("done"), "{said}{}", String::from_utf8_lossy(&output.stderr));
        }
        let outputs = both(true, apart);
        let said = String::from_utf8_lossy(&outputs[0].stdout);
        // Without flags rank 0 sends a message, and the connection of rank 1 is closed.
        let expected = match on_gpus() && !apart {
            true => "refused: parallel: rank 1 did not arrive at call 16 within 4 s",
            false => "refused: parallel: rank 1 has left the group: it has ended",
        };
        assert!(said.contains(expected), "{said}");
    }
}

#[test]
fn nccl_waits_for_a_rank_that_creates_no_communicator_until_the_timeout() {
    if !on_gpus() {
        println!("skipped: it needs a GPU");
        return;
    }
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let silent = std::thread::spawn(move || {
        let mut stream = loop {
            match TcpStream::connect(address) {
                Ok(stream) => break stream,
                Err(_) => std::thread::sleep(Duration::from_millis(5)),
            }
        };
        // Rank 1 of two, on another host; its answers up to an identity of NCCL; then silence.
        stream.write_all(b"moye-par\x01\0\0\0\x02\0\0\0").unwrap();
        let product = "product 1 of the group: AllReduce of bf16 4 x 8 x 16, shards [2, 2]";
        let built = ["builds", "has loaded the kernels of"].map(|what| format!("{what} {product}"));
        // A GPU of compute capability 9.0, with an identifier of zeros.
        let device = [&[0; 28][..], &[9], &[0; 19]].concat();
        for message in [
            &device[..],
            &[],
            built[0].as_bytes(),
            built[1].as_bytes(),
            b"opens NCCL's communicators",
            &[0; 128],
        ] {
            stream.write_all(&(message.len() as u32).to_le_bytes()).unwrap();
            stream.write_all(message).unwrap();
        }
        std::thread::sleep(Duration::from_secs(20));
    });
    let rendezvous = Rendezvous::tcp(&address.to_string(), 0, 2);
    let group = Group::join(&Device::gpu(0).unwrap(), rendezvous, Duration::from_secs(4)).unwrap();
    let start = Instant::now();
    let built = ParallelMatmul::all_reduce(&group, [4, 8, 16]).build::<bf16>();
    let error = built.err().unwrap().to_string();
    assert!(error.contains("which is on another host") && error.contains("rank 1 did not arrive"), "{error}");
    assert!(start.elapsed() < Duration::from_secs(20), "{:?}", start.elapsed());
    silent.join().unwrap();
}
