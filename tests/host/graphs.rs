//! Graphs: captured once, launched as a whole, on the simulator and on a GPU if there is one.

use crate::common::{PTX, SCALE, devices, one_thread};
use half::f16;
use moye::{Buffer, Device, GraphExec, Matmul, Matrix, MatrixMut, Operand, Stream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// Small integers, whose products are exact in f32 and in f16.
fn numbers(count: usize, seed: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 7 + seed * 13) % 5) as f32 - 2.0).collect()
}

/// The product of an m x k and a k x n matrix, row-major.
fn product(a: &[f32], b: &[f32], [m, n, k]: [usize; 3]) -> Vec<f32> {
    let at = |i: usize, j: usize| (0..k).map(|l| a[i * k + l] * b[l * n + j]).sum();
    (0..m * n).map(|i| at(i / n, i % n)).collect()
}

/// Captures a product in `splits` slices of K.
fn captured<T: Operand + moye::Output<T>>(
    device: &Device,
    [a, b]: [&Buffer<T>; 2],
    c: &mut Buffer<T>,
    [m, n, k]: [usize; 3],
    splits: u32,
) -> moye::Graph {
    let (a, b) = (Matrix::row_major(a, m, k).unwrap(), Matrix::row_major(b, k, n).unwrap());
    let mut c = MatrixMut::row_major(c, m, n).unwrap();
    let multiply = |stream: &Stream| {
        // SAFETY: no other stream uses the buffers.
        unsafe { Matmul::new(a.clone(), b.clone()).split_k(splits).run_on(stream, &mut c) }
    };
    device.capture(multiply).unwrap()
}

/// Launches a graph and waits for it.
fn launch(graph: &mut GraphExec) {
    let stream = graph.device().new_stream().unwrap();
    // SAFETY: the buffers live through the test, and no other work uses them meanwhile.
    unsafe { graph.launch(&stream).unwrap() };
    stream.synchronize().unwrap();
}

#[test]
fn a_capture_runs_nothing_and_each_launch_takes_what_the_buffers_hold_then() {
    let extents @ [m, n, k] = [48, 40, 300];
    for device in devices() {
        let (a, b) = (numbers(m * k, 1), numbers(k * n, 2));
        let (mut on_a, on_b) = (device.upload(&a).unwrap(), device.upload(&b).unwrap());
        let mut c = device.upload(&vec![7.0f32; m * n]).unwrap();
        // In slices, so that the product needs a workspace and two kernels.
        let mut graph = captured(&device, [&on_a, &on_b], &mut c, extents, 3).instantiate().unwrap();
        device.synchronize().unwrap();
        assert_eq!(c.download().unwrap(), vec![7.0; m * n], "{device:?}: nothing runs at the capture");
        for seed in [1, 3, 4] {
            let a = numbers(m * k, seed);
            on_a.upload_from(&a).unwrap();
            launch(&mut graph);
            assert_eq!(c.download().unwrap(), product(&a, &b, extents), "{device:?}, {seed}");
        }
    }
}

#[test]
fn a_graph_has_a_workspace_of_its_own() {
    let extents @ [m, n, k] = [64, 64, 512];
    for device in devices() {
        let (a, b) = (numbers(m * k, 1), numbers(k * n, 2));
        let (on_a, on_b) = (device.upload(&a).unwrap(), device.upload(&b).unwrap());
        let [mut c, mut d] = [(); 2].map(|()| device.alloc_zeroed::<f32>(m * n).unwrap());
        let mut graph = captured(&device, [&on_a, &on_b], &mut c, extents, 4).instantiate().unwrap();
        let expected = product(&a, &b, extents);
        let stream = device.new_stream().unwrap();
        for _ in 0..3 {
            // SAFETY: the launches write different buffers, and read buffers that none writes.
            unsafe { graph.launch(&stream).unwrap() };
            let (a, b) = (Matrix::row_major(&on_a, m, k).unwrap(), Matrix::row_major(&on_b, k, n).unwrap());
            let mut d = MatrixMut::row_major(&mut d, m, n).unwrap();
            // At the same time, with another number of slices.
            Matmul::new(a, b).split_k(7).run(&device, &mut d).unwrap();
            device.synchronize().unwrap();
        }
        assert_eq!(c.download().unwrap(), expected, "{device:?}");
        assert_eq!(d.download().unwrap(), expected, "{device:?}");
    }
}

#[test]
fn a_product_whose_last_tiles_are_shared_counts_in_a_graph_too() {
    for device in devices() {
        // Large enough on a GPU that blocks share tiles, which are counted.
        let extents @ [m, n, k] = if device.is_gpu() { [1152, 2048, 2048] } else { [64, 72, 64] };
        let halves = |values: Vec<f32>| values.into_iter().map(f16::from_f32).collect::<Vec<_>>();
        let (a, b) = (halves(numbers(m * k, 1)), halves(numbers(k * n, 2)));
        let (a, b) = (device.upload(&a).unwrap(), device.upload(&b).unwrap());
        let [mut c, mut d] = [(); 2].map(|()| device.alloc_zeroed::<f16>(m * n).unwrap());
        matmul(&device, [&a, &b], &mut d, extents);
        let (a_matrix, b_matrix) =
            (Matrix::row_major(&a, m, k).unwrap(), Matrix::row_major(&b, k, n).unwrap());
        let mut graph = {
            let mut c = MatrixMut::row_major(&mut c, m, n).unwrap();
            // SAFETY: no other stream uses the buffers.
            let multiply = |stream: &Stream| unsafe {
                Matmul::new(a_matrix.clone(), b_matrix.clone()).run_on(stream, &mut c)
            };
            device.capture(multiply).unwrap().instantiate().unwrap()
        };
        for _ in 0..3 {
            c.fill_bytes(0).unwrap();
            launch(&mut graph);
            assert!(c.download().unwrap() == d.download().unwrap(), "{device:?}: the same bits");
        }
    }
}

fn matmul(device: &Device, [a, b]: [&Buffer<f16>; 2], c: &mut Buffer<f16>, [m, n, k]: [usize; 3]) {
    let (a, b) = (Matrix::row_major(a, m, k).unwrap(), Matrix::row_major(b, k, n).unwrap());
    moye::matmul(device, &a, &b, &mut MatrixMut::row_major(c, m, n).unwrap()).unwrap();
}

#[test]
fn an_update_takes_other_buffers_and_refuses_other_launches() {
    let extents @ [m, n, k] = [32, 32, 64];
    for device in devices() {
        let (a, b) = (numbers(m * k, 1), numbers(k * n, 2));
        let (on_a, on_b) = (device.upload(&a).unwrap(), device.upload(&b).unwrap());
        let [mut c, mut d] = [(); 2].map(|()| device.alloc_zeroed::<f32>(m * n).unwrap());
        let mut graph = captured(&device, [&on_a, &on_b], &mut c, extents, 1).instantiate().unwrap();
        let other = captured(&device, [&on_a, &on_b], &mut d, extents, 1);
        graph.update(&other).unwrap();
        drop(other);
        launch(&mut graph);
        assert_eq!(d.download().unwrap(), product(&a, &b, extents), "{device:?}");
        assert_eq!(c.download().unwrap(), vec![0.0; m * n], "{device:?}: the first is not written any more");

        // In slices it is two kernels.
        let parts = captured(&device, [&on_a, &on_b], &mut c, extents, 2);
        let error = graph.update(&parts).unwrap_err().to_string();
        assert!(error.starts_with("the graph cannot be updated: "), "{device:?}: {error}");
        assert!(error.ends_with("instantiate the new graph instead"), "{device:?}: {error}");
        d.fill_bytes(0).unwrap();
        launch(&mut graph);
        assert_eq!(d.download().unwrap(), product(&a, &b, extents), "{device:?}: it is as it was");
    }
}

#[test]
fn calls_that_take_effect_at_once_are_refused_while_a_graph_is_captured() {
    for device in devices() {
        let mut x = device.upload(&[1.0f32; 4]).unwrap();
        let mut refused = Vec::new();
        let graph = device.capture(|stream| {
            refused.extend([
                x.download().err(),
                x.download_into(&mut [0.0; 4]).err(),
                x.upload_from(&[2.0; 4]).err(),
                x.fill_bytes(0).err(),
                stream.synchronize().err(),
                device.synchronize().err(),
                stream.record()?.synchronize().err(),
            ]);
            Ok(())
        });
        graph.unwrap();
        assert_eq!(refused.len(), 7);
        for error in refused {
            let error = error.expect("it is refused").to_string();
            assert!(error.contains("cannot be captured in a graph"), "{device:?}: {error}");
        }
        assert_eq!(x.download().unwrap(), [1.0; 4], "{device:?}: nothing was done");
    }
}

#[test]
fn a_capture_that_fails_gives_its_error_and_leaves_the_device_usable() {
    for device in devices() {
        let x = device.upload(&[1.0f32, 2.0, 3.0, 4.0]).unwrap();
        let mut y = device.alloc_zeroed::<f32>(4).unwrap();
        let module = device.load(&PTX).unwrap();
        let error = device.capture(|_| x.slice(3..5).map(drop)).unwrap_err().to_string();
        assert!(error.contains("elements 3..5"), "{error}");
        let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
            let _ = device.capture(|_| panic!("on purpose"));
        }));
        assert!(panicked.is_err());
        assert_eq!(x.download().unwrap()[1], 2.0, "transfers are allowed again");
        let graph = device.capture(|stream| {
            // SAFETY: both have four elements, and no other work uses them.
            unsafe { module.launch_on(stream, &SCALE, one_thread(), (&x, &mut y, 3.0, 4)) }
        });
        launch(&mut graph.unwrap().instantiate().unwrap());
        assert_eq!(y.download().unwrap(), [3.0, 6.0, 9.0, 12.0], "{device:?}");
    }
}

#[test]
fn a_graph_is_launched_on_streams_of_its_device_alone_and_is_no_part_of_another() {
    let other = Device::sim();
    for device in devices() {
        let x = device.upload(&[1.0f32, 2.0, 3.0, 4.0]).unwrap();
        let mut y = device.alloc_zeroed::<f32>(4).unwrap();
        let module = device.load(&PTX).unwrap();
        let graph = device.capture(|stream| {
            // SAFETY: both have four elements, and no other work uses them.
            unsafe { module.launch_on(stream, &SCALE, one_thread(), (&x, &mut y, 2.0, 4)) }
        });
        let mut inner = graph.unwrap().instantiate().unwrap();
        // SAFETY: the launch is refused.
        let error = unsafe { inner.launch(&other.default_stream()) }.unwrap_err().to_string();
        assert!(error.contains("use a stream of that device"), "{error}");
        // SAFETY: the launch is refused.
        let error = device.capture(|stream| unsafe { inner.launch(stream) }).unwrap_err().to_string();
        assert!(error.contains("GraphExec::launch cannot be captured in a graph"), "{error}");
        launch(&mut inner);
        assert_eq!(y.download().unwrap(), [2.0, 4.0, 6.0, 8.0], "{device:?}");
    }
}

#[test]
fn a_caller_gives_the_workspace_of_every_kind_of_product_in_calls_and_in_captures() {
    let [m, n, k] = [40, 48, 300];
    for device in devices() {
        let (a, b) = (numbers(m * k, 1), numbers(k * n, 2));
        let expected = product(&a, &b, [m, n, k]);
        // With twice the stride, so that no kernel reads A, or writes C, in place.
        let spread = |values: &[f32]| values.iter().flat_map(|&x| [x, f32::NAN]).collect::<Vec<_>>();
        let (plain, apart, on_b) =
            (device.upload(&a).unwrap(), device.upload(&spread(&a)).unwrap(), device.upload(&b).unwrap());
        let plain = Matrix::row_major(&plain, m, k).unwrap();
        let apart = Matrix::new(&apart, m, k, (2 * k, 2)).unwrap();
        for (what, a, step, splits) in [
            ("slices", &plain, 1, 3),
            ("a rearranged operand", &apart, 1, 1),
            ("a scattered result", &plain, 2, 1),
            ("all of them", &apart, 2, 4),
        ] {
            // NaN, of which a call receives the first multiple of 256 bytes.
            let mut memory = device.alloc_uninit::<u8>(1 << 20).unwrap();
            memory.fill_bytes(0xFF).unwrap();
            let skipped = memory.address().next_multiple_of(256) - memory.address();
            let address = memory.address() + skipped;
            let last = Arc::new(AtomicUsize::new(0));
            let allocate = || {
                let last = last.clone();
                move |bytes| {
                    last.store(bytes, Relaxed);
                    Ok(address)
                }
            };
            let mut c = device.upload(&vec![7.0f32; step * m * n]).unwrap();
            let call = |stream: &Stream, c: &mut Buffer<f32>| {
                let b = Matrix::row_major(&on_b, k, n).unwrap();
                let mut c = MatrixMut::new(c, m, n, (step * n, step)).unwrap();
                let product = Matmul::new(a.clone(), b).split_k(splits);
                let bytes = product.explain(&device, &mut c)?.workspace_bytes;
                // SAFETY: no other stream uses the buffers.
                unsafe { product.run_on(stream, &mut c)? };
                assert_eq!(last.load(Relaxed), bytes, "{device:?}, {what}");
                assert!(bytes > 0, "{device:?}, {what}");
                Ok(())
            };
            let check = |c: &mut Buffer<f32>, memory: &mut Buffer<u8>, how: &str| {
                let got: Vec<_> = c.download().unwrap().into_iter().step_by(step).collect();
                assert_eq!(got, expected, "{device:?}, {what}, {how}");
                let (used, end) = (memory.download().unwrap(), skipped as usize + last.load(Relaxed));
                assert!(
                    used[..end].iter().any(|&byte| byte != 0xFF),
                    "{device:?}, {what}, {how}: it is used"
                );
                assert!(
                    used[end..].iter().all(|&byte| byte == 0xFF),
                    "{device:?}, {what}, {how}: no byte more"
                );
                c.fill_bytes(0).unwrap();
                memory.fill_bytes(0xFF).unwrap();
            };
            let stream = device.new_stream().unwrap();
            // SAFETY: one launch at a time uses the memory, which the test keeps.
            let stream = unsafe { stream.with_workspaces(allocate()) };
            call(&stream, &mut c).unwrap();
            stream.synchronize().unwrap();
            check(&mut c, &mut memory, "called");
            // SAFETY: one launch at a time uses the memory, which the test keeps.
            let capture =
                device.capture(|stream| call(&unsafe { stream.with_workspaces(allocate()) }, &mut c));
            let mut graph = capture.unwrap().instantiate().unwrap();
            for _ in 0..2 {
                launch(&mut graph);
                check(&mut c, &mut memory, "replayed");
                call(&stream, &mut c).unwrap();
                stream.synchronize().unwrap();
                check(&mut c, &mut memory, "called after a replay");
            }
        }
        // A workspace that is too small.
        let stream = device.new_stream().unwrap();
        let refuse = |bytes| Err(moye::Error::Workspace { bytes, reason: "there is none".to_owned() });
        let mut c = device.alloc_uninit::<f32>(m * n).unwrap();
        let (b, mut c) =
            (Matrix::row_major(&on_b, k, n).unwrap(), MatrixMut::row_major(&mut c, m, n).unwrap());
        // SAFETY: nothing is launched.
        let error = unsafe {
            Matmul::new(plain.clone(), b)
                .split_k(3)
                .run_on(&stream.with_workspaces(refuse), &mut c)
                .unwrap_err()
        };
        let text = error.to_string();
        assert!(
            text.starts_with("an operation needs a workspace of ") && text.ends_with("there is none"),
            "{text}"
        );
    }
}

/// Three buffers of four elements on a device: the first holds 1 to 4, the others zeros.
struct Chain {
    device: Device,
    module: moye::Module,
    buffers: [Buffer<f32>; 3],
}

impl Chain {
    fn new(device: Device) -> Self {
        let module = device.load(&PTX).unwrap();
        let values = [[1.0f32, 2.0, 3.0, 4.0], [0.0; 4], [0.0; 4]];
        let buffers = values.map(|values| device.upload(&values).unwrap());
        Self { device, module, buffers }
    }

    /// Writes `factor` times buffer `from` to buffer `to`, a later one.
    fn scale(&mut self, stream: &Stream, from: usize, to: usize, factor: f32) -> moye::Result<()> {
        let (before, after) = self.buffers.split_at_mut(to);
        let arguments = (&before[from], &mut after[0], factor, 4);
        // SAFETY: both have four elements; the tests order the launches.
        unsafe { self.module.launch_on(stream, &SCALE, one_thread(), arguments) }
    }

    fn read(&self, at: usize) -> Vec<f32> {
        self.buffers[at].download().unwrap()
    }

    fn new_stream(&self) -> Stream {
        self.device.new_stream().unwrap()
    }
}

#[test]
fn a_stream_that_waits_for_a_captured_event_is_captured_too() {
    for device in devices() {
        let mut chain = Chain::new(device);
        let (device, other) = (chain.device.clone(), chain.new_stream());
        let graph = device.capture(|stream| {
            chain.scale(stream, 0, 1, 2.0)?;
            other.wait(&stream.record()?)?;
            chain.scale(&other, 1, 2, 5.0)?;
            stream.wait(&other.record()?)
        });
        let mut graph = graph.unwrap().instantiate().unwrap();
        device.synchronize().unwrap();
        assert_eq!(chain.read(2), [0.0; 4], "{device:?}: nothing runs at the capture");
        for first in [1.0f32, 7.0] {
            chain.buffers[0].upload_from(&[first; 4]).unwrap();
            launch(&mut graph);
            assert_eq!(chain.read(2), [10.0 * first; 4], "{device:?}");
        }
        // Both streams are ordinary again, ordered by events.
        chain.scale(&other, 0, 1, 3.0).unwrap();
        let stream = chain.new_stream();
        stream.wait(&other.record().unwrap()).unwrap();
        chain.scale(&stream, 1, 2, 1.0).unwrap();
        assert_eq!(chain.read(2), [21.0; 4], "{device:?}");
    }
}

#[test]
fn the_default_stream_and_a_third_one_join_a_capture_too() {
    for device in devices() {
        let mut chain = Chain::new(device);
        let (device, third) = (chain.device.clone(), chain.new_stream());
        let default = device.default_stream();
        let graph = device.capture(|stream| {
            // From a captured stream without work, through a stream that is dropped.
            default.wait(&stream.record()?)?;
            chain.scale(&device.default_stream(), 0, 1, 2.0)?;
            let between = chain.new_stream();
            between.wait(&default.record()?)?;
            third.wait(&between.record()?)?;
            drop(between);
            chain.scale(&third, 1, 2, 4.0)?;
            stream.wait(&third.record()?)
        });
        launch(&mut graph.unwrap().instantiate().unwrap());
        assert_eq!(chain.read(2), [8.0, 16.0, 24.0, 32.0], "{device:?}");
    }
}

#[test]
fn a_clone_of_the_captured_stream_runs_its_work_after_the_capture() {
    for device in devices() {
        let mut chain = Chain::new(device);
        let device = chain.device.clone();
        let mut clone = None;
        let graph = device.capture(|stream| {
            clone = Some(stream.clone());
            chain.scale(stream, 0, 1, 2.0)
        });
        let (graph, clone) = (graph.unwrap(), clone.unwrap());
        let executable = graph.instantiate().unwrap();
        chain.scale(&clone, 0, 2, 3.0).unwrap();
        clone.synchronize().unwrap();
        assert_eq!(chain.read(2), [3.0, 6.0, 9.0, 12.0], "{device:?}: it runs at once");
        chain.buffers[2].fill_bytes(0).unwrap();
        for mut executable in [executable, graph.instantiate().unwrap()] {
            launch(&mut executable);
        }
        assert_eq!(chain.read(1), [2.0, 4.0, 6.0, 8.0], "{device:?}");
        assert_eq!(chain.read(2), [0.0; 4], "{device:?}: and is in no graph");
    }
}

#[test]
fn uses_of_streams_and_events_that_cuda_refuses_during_a_capture_are_errors() {
    type Work = fn(&mut Chain, &Stream, &Stream, &moye::Event) -> moye::Result<()>;
    let cases: [(&str, Option<&str>, Work); 8] = [
        ("a fork that is not joined", Some("does not wait"), |chain, stream, other, _| {
            other.wait(&stream.record()?)?;
            chain.scale(other, 0, 1, 2.0)
        }),
        ("a fork that is dropped", Some("does not wait"), |chain, stream, _, _| {
            let third = chain.new_stream();
            third.wait(&stream.record()?)?;
            chain.scale(&third, 0, 1, 2.0)
        }),
        ("work after the join", Some("does not wait"), |chain, stream, other, _| {
            other.wait(&stream.record()?)?;
            chain.scale(other, 0, 1, 2.0)?;
            stream.wait(&other.record()?)?;
            chain.scale(other, 1, 2, 2.0)
        }),
        ("a fork without work", None, |_, stream, other, _| other.wait(&stream.record()?)),
        ("an event from outside", Some("outside the capture"), |_, stream, _, outside| stream.wait(outside)),
        (
            "an event from outside on a joined stream",
            Some("outside the capture"),
            |_, stream, other, outside| {
                other.wait(&stream.record()?)?;
                other.wait(outside)
            },
        ),
        ("an error that is dropped", Some("an earlier call"), |_, stream, _, outside| {
            let _ = stream.wait(outside);
            Ok(())
        }),
        ("an event of another capture", Some("another capture"), |chain, stream, _, _| {
            let event = stream.record()?;
            chain.device.capture(|inner| inner.wait(&event)).map(drop)
        }),
    ];
    for device in devices() {
        for (what, expected, work) in cases {
            let mut chain = Chain::new(device.clone());
            let other = chain.new_stream();
            let outside = other.record().unwrap();
            let captured = device.capture(|stream| work(&mut chain, stream, &other, &outside));
            match (captured, expected) {
                (Ok(_), None) => {}
                (Err(error), Some(expected)) => {
                    let error = error.to_string();
                    assert!(
                        error.starts_with("the capture of a graph is refused"),
                        "{device:?}, {what}: {error}"
                    );
                    assert!(error.contains(expected), "{device:?}, {what}: {error}");
                }
                (captured, _) => panic!("{device:?}, {what}: {captured:?}"),
            }
            // The other stream is ordinary again.
            chain.scale(&other, 0, 1, 2.0).unwrap();
            other.synchronize().unwrap();
            assert_eq!(chain.read(1), [2.0, 4.0, 6.0, 8.0], "{device:?}, {what}");
        }
    }
}

#[test]
fn an_event_of_a_capture_that_has_ended_never_happens_until_it_is_recorded_again() {
    for device in devices() {
        let mut chain = Chain::new(device.clone());
        let mut event = None;
        let graph = device.capture(|stream| {
            chain.scale(stream, 0, 1, 2.0)?;
            event = Some(stream.record()?);
            Ok(())
        });
        let (graph, mut event) = (graph.unwrap(), event.unwrap());
        let stream = chain.new_stream();
        let elapsed = |event: &moye::Event| event.elapsed_since(event).map(drop);
        let refused = [stream.wait(&event), event.synchronize(), elapsed(&event)];
        for error in refused.into_iter().chain([device.capture(|new| new.wait(&event)).map(drop)]) {
            let error = error.expect_err("it never happens").to_string();
            assert!(error.contains("recorded in a capture that has ended"), "{device:?}: {error}");
        }
        event.record_again(&stream).unwrap();
        stream.wait(&event).unwrap();
        event.synchronize().unwrap();
        launch(&mut graph.instantiate().unwrap());
        assert_eq!(chain.read(1), [2.0, 4.0, 6.0, 8.0], "{device:?}");
    }
}

#[test]
fn streams_of_a_graph_race_on_the_simulator_unless_events_order_them() {
    for is_ordered in [true, false] {
        let device = Device::sim();
        let [x, mut y] = [(); 2].map(|()| device.upload(&[1_u32; 32]).unwrap());
        let other = device.new_stream().unwrap();
        let add = |stream: &Stream, y: &mut Buffer<u32>| {
            // SAFETY: both have 32 words; a race is a fault.
            unsafe { stream.launch(&ADD, moye::Grid::new(1, 32), (&x, y)) }
        };
        let graph = device.capture(|stream| {
            other.wait(&stream.record()?)?;
            add(stream, &mut y)?;
            if is_ordered {
                other.wait(&stream.record()?)?;
            }
            add(&other, &mut y)?;
            stream.wait(&other.record()?)
        });
        let mut graph = graph.unwrap().instantiate().unwrap();
        for round in 1..=3 {
            // SAFETY: the buffers are alive; a race is a fault.
            let ran = unsafe { graph.launch(&device.default_stream()) };
            if is_ordered {
                ran.unwrap();
                assert_eq!(y.download().unwrap(), [1 + 2 * round; 32]);
            } else {
                let fault = ran.unwrap_err().to_string();
                assert!(fault.contains("race") && fault.contains("of kernel `add`"), "{fault}");
                break;
            }
        }
    }
}

/// Each thread adds a word of `x` to one of `y`.
const ADD: moye::Kernel<(moye::Global<u32>, moye::GlobalMut<u32>)> = moye::Kernel::new(
    "add",
    "moye-tests",
    moye::LaunchBounds { threads: Some(32), exact: true, min_blocks: None },
    0,
    |(x, y)| {
        use moye_sim::intrinsics::{load_global, store_global, thread_idx};
        let at = 4 * u64::from(thread_idx().x);
        let sum = load_global::<u32>(x.address() + at) + load_global::<u32>(y.address() + at);
        store_global(y.address() + at, sum);
    },
);
