//! A model over two devices, compared with one device.

use crate::model::{GREEDY, PLAIN, answers, prompt};
use crate::synthetic::{self, CONTEXT};
use moye::Device;
use moye_llama::engine::{Engine, Limits};
use moye_llama::gguf::Gguf;
use moye_llama::model::Model;
use moye_llama::ranks::Ranks;
use moye_parallel::{Group, Rendezvous};
use std::process::{Command, Stdio};
use std::time::Duration;

/// Two simulators, or two GPUs.
fn devices() -> Option<Vec<Device>> {
    if std::env::var("MOYE_DEVICE").is_ok_and(|device| device.starts_with("gpu")) {
        return (Device::gpu_count().unwrap() > 1)
            .then(|| vec![Device::gpu(0).unwrap(), Device::gpu(1).unwrap()]);
    }
    Some(Device::sim_peers(2))
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
    let model = synthetic::model("qwen2");
    let start = |gpus: &str, variables: &[(&str, String)]| {
        let mut program = Command::new(env!("CARGO_BIN_EXE_moye-llama"));
        program
            .arg("--model")
            .arg(&model.path)
            .args(["--device", "sim", "--tokens", "2", "--gpus", gpus, "the"]);
        program.envs(variables.iter().map(|(name, value)| (*name, value)));
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
        let (rank, address) = (rank.to_owned(), "127.0.0.1".to_owned());
        let world = "2".to_owned();
        start(
            "2",
            &[("RANK", rank), ("WORLD_SIZE", world), ("MASTER_ADDR", address), ("MASTER_PORT", port.clone())],
        )
    };
    let ranks = [as_torchrun("0"), as_torchrun("1")];
    assert_eq!(ranks.map(output), [one, String::new()]);
    let refused = start("3", &[]).wait_with_output().unwrap();
    let error = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(error.contains("2 heads, 1 of keys and values") && error.contains("over 3 GPUs"), "{error}");
}
