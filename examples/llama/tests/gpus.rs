//! A model over two devices, compared with one device.

use crate::model::{GREEDY, PLAIN, answers, prompt};
use crate::program::{program, run};
use crate::synthetic::{self, CONTEXT};
use moye::Device;
use moye_llama::engine::{Engine, Limits};
use moye_llama::gguf::Gguf;
use moye_llama::model::Model;
use moye_llama::ranks::Ranks;
use moye_parallel::{Group, Rendezvous};
use std::process::Stdio;
use std::time::Duration;

/// Two GPUs with `MOYE_DEVICE=gpu`, or two simulators; `None` on a machine with one GPU.
fn devices() -> Option<Vec<Device>> {
    if !on_gpus() {
        return Some(Device::sim_peers(2));
    }
    if Device::gpu_count().unwrap() < 2 {
        println!("skipped: it needs two GPUs");
        return None;
    }
    Some(vec![Device::gpu(0).unwrap(), Device::gpu(1).unwrap()])
}

fn on_gpus() -> bool {
    std::env::var("MOYE_DEVICE").is_ok_and(|device| device.starts_with("gpu"))
}

#[test]
fn two_devices_draw_the_tokens_of_one() {
    let Some(devices) = devices() else { return };
    // A chunk shorter than the prompt, and tokens ahead.
    let limits = Limits { chunk: 4, ahead: 2, graphs: true, ..PLAIN };
    // Heads of keys and values are shared; with norms of queries and keys there are three weights.
    for architecture in ["llama", "qwen3"] {
        let (file, prompts) = (synthetic::model(architecture), [prompt(5, 3)]);
        let whole = Model::load(&devices[0], &Gguf::open(&file.path).unwrap(), CONTEXT, |_, _| ()).unwrap();
        let expected = answers(&mut Engine::new(whole, limits, GREEDY).unwrap(), &prompts, 2);
        std::thread::scope(|scope| {
            for (device, rendezvous) in devices.iter().zip(Rendezvous::threads(2)) {
                let (path, prompts, expected) = (&file.path, &prompts, &expected);
                scope.spawn(move || {
                    let rank = rendezvous.rank();
                    let group = Group::join(device, rendezvous, Duration::from_secs(60)).unwrap();
                    let part = Gguf::open(path).unwrap().cut(rank, 2).unwrap();
                    let model = Model::load(device, &part, CONTEXT, |_, _| ()).unwrap();
                    let model = model.ranks(Some(Ranks::new(group)));
                    let mut engine = Engine::new(model, limits, GREEDY).unwrap();
                    assert_eq!(&answers(&mut engine, prompts, 2), expected, "{architecture}, rank {rank}");
                });
            }
        });
    }
}

#[test]
fn the_program_answers_alike_on_two_devices_by_threads_and_by_processes() {
    if devices().is_none() {
        return;
    }
    let device = if on_gpus() { "gpu" } else { "sim" };
    let model = synthetic::model("qwen2");
    let start = |gpus: &str, variables: &[(&str, &str)]| {
        let mut program = program();
        program
            .arg("--model")
            .arg(&model.path)
            .args(["--device", device, "--tokens", "2", "--gpus", gpus, "the"]);
        program.env("MOYE_DEVICE", device).envs(variables.iter().copied());
        program.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    };
    let output = |program: std::process::Child| {
        let output = program.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let one = output(start("1", &[]));
    assert_eq!(output(start("2", &[])), one);
    let port = (20_000 + std::process::id() % 20_000).to_string();
    let as_torchrun = |rank: &str| {
        let ranks = [("RANK", rank), ("LOCAL_RANK", rank), ("WORLD_SIZE", "2")];
        start("2", &[&ranks[..], &[("MASTER_ADDR", "127.0.0.1"), ("MASTER_PORT", &port)]].concat())
    };
    let ranks = [as_torchrun("0"), as_torchrun("1")];
    assert_eq!(ranks.map(output), [one, String::new()]);
}

#[test]
fn more_devices_than_a_model_can_be_cut_over_and_a_conversation_on_several_are_refused() {
    let model = synthetic::model("qwen2");
    let refused = |arguments: &[&str]| {
        let output = run(&model.path, arguments, "");
        assert!(!output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let error = refused(&["--gpus", "3", "the"]);
    assert!(error.contains("2 heads, 1 of keys and values") && error.contains("over 3 GPUs"), "{error}");
    let error = refused(&["--gpus", "2", "--chat"]);
    assert!(error.contains("--chat answers on one GPU") && error.contains("--batch FILE"), "{error}");
}
