//! Launches on several streams of the simulator: their order, and races between two streams.

use moye::{Buffer, Device, Error, GlobalMut, Grid, Kernel, LaunchBounds, Stream};
use moye_sim::intrinsics::{load_global, store_global, thread_idx};
use moye_sim::{Fault, FaultKind, RaceThreads};

/// A kernel with two words for each thread.
type Two = Kernel<(GlobalMut<u32>, GlobalMut<u32>)>;

const THREADS: u32 = 64;
const BOUNDS: LaunchBounds = LaunchBounds { threads: Some(THREADS), exact: true, min_blocks: None };

/// Each thread stores a word of `from` plus one to `to`.
const STEP: Two = Kernel::new("step", "moye-tests", BOUNDS, 0, |(from, to)| {
    let at = 4 * u64::from(thread_idx().x);
    store_global::<u32>(to.address() + at, load_global::<u32>(from.address() + at) + 1);
});

/// Two buffers, a step between them on one stream, and one back on another.
struct Steps {
    device: Device,
    streams: [Stream; 2],
    buffers: [Buffer<u32>; 2],
}

impl Steps {
    fn new() -> Self {
        let device = Device::sim();
        let streams = [device.new_stream().unwrap(), device.new_stream().unwrap()];
        let buffers = [(); 2].map(|()| device.upload(&[0_u32; THREADS as usize]).unwrap());
        Self { device, streams, buffers }
    }

    /// A step on a stream, from buffer `from` to the other one.
    fn step(&mut self, stream: &Stream, from: usize) -> Result<(), Error> {
        let [a, b] = &mut self.buffers;
        let arguments = if from == 0 { (a, b) } else { (b, a) };
        // SAFETY: the buffers are large enough; a race is a fault.
        unsafe { stream.launch(&STEP, Grid::new(1, THREADS), arguments) }
    }
}

/// The race of two streams that an error reports.
fn race(error: Error) -> Fault {
    let Error::Simulator(error) = error else { panic!("{error}") };
    let fault = error.fault().expect("a fault").clone();
    let FaultKind::Race(race) = &fault.kind else { panic!("{fault}") };
    assert_eq!((race.threads, race.other.kernel.as_deref()), (RaceThreads::Streams, Some("step")), "{fault}");
    fault
}

#[test]
fn two_streams_without_an_event_between_race_and_with_one_do_not() {
    type Between = fn(&Steps);
    let cases: [(&str, bool, Between); 7] = [
        ("nothing", false, |_| ()),
        ("an event", true, |s| s.streams[1].wait(&s.streams[0].record().unwrap()).unwrap()),
        ("an event of the stream that waits", false, |s| {
            s.streams[1].wait(&s.streams[1].record().unwrap()).unwrap();
        }),
        ("an event that was recorded again", true, |s| {
            let mut event = s.streams[1].record().unwrap();
            event.record_again(&s.streams[0]).unwrap();
            s.streams[1].wait(&event).unwrap();
        }),
        ("a wait for the stream", true, |s| s.streams[0].synchronize().unwrap()),
        ("a wait for an event", true, |s| s.streams[0].record().unwrap().synchronize().unwrap()),
        ("a download", true, |s| _ = s.buffers[1].download().unwrap()),
    ];
    for (what, is_ordered, between) in cases {
        let mut steps = Steps::new();
        let [first, second] = steps.streams.clone();
        steps.step(&first, 0).unwrap();
        between(&steps);
        match steps.step(&second, 1) {
            Ok(()) => {
                assert!(is_ordered, "{what} orders nothing");
                assert_eq!(steps.buffers[0].download().unwrap(), [2; THREADS as usize], "{what}");
            }
            Err(error) => {
                let fault = race(error).to_string();
                assert!(!is_ordered, "{what}: {fault}");
                assert!(fault.starts_with("kernel `step`") && fault.contains("streams.rs:"), "{fault}");
                assert!(fault.contains("record an event or raise a flag after the earlier work"), "{fault}");
            }
        }
    }
}

#[test]
fn the_default_stream_is_one_of_them() {
    for waits in [true, false] {
        let mut steps = Steps::new();
        let (default, own) = (steps.device.default_stream(), steps.streams[0].clone());
        steps.step(&own, 0).unwrap();
        if waits {
            default.wait(&own.record().unwrap()).unwrap();
        }
        let ran = steps.step(&default, 1);
        assert_eq!(ran.is_ok(), waits);
        ran.err().map(race);
    }
}

#[test]
fn a_graph_is_work_of_the_stream_that_it_is_launched_on() {
    for waits in [true, false] {
        let mut steps = Steps::new();
        let [first, second] = steps.streams.clone();
        let graph = steps.device.clone().capture(|stream| {
            steps.step(stream, 0)?;
            steps.step(stream, 1)
        });
        let mut graph = graph.unwrap().instantiate().unwrap();
        // SAFETY: the buffers are alive; a race is a fault.
        unsafe { graph.launch(&first) }.unwrap();
        if waits {
            second.wait(&first.record().unwrap()).unwrap();
        }
        let ran = steps.step(&second, 0);
        assert_eq!(ran.is_ok(), waits);
        if let Err(error) = ran {
            race(error);
            continue;
        }
        // In the reverse order, without an event: the step of the second stream and the graph.
        // SAFETY: the buffers are alive; a race is a fault.
        let raced = unsafe { graph.launch(&first) }.unwrap_err();
        race(raced);
        steps.device.synchronize().unwrap();
        // Launches of one graph run one after another, on any streams.
        for stream in [&first, &second, &first] {
            // SAFETY: the buffers are alive; a race is a fault.
            unsafe { graph.launch(stream) }.unwrap();
        }
    }
}

#[test]
fn an_event_of_another_simulator_is_refused() {
    let (device, other) = (Device::sim(), Device::sim());
    let mut event = device.default_stream().record().unwrap();
    let stream = other.new_stream().unwrap();
    assert!(matches!(stream.wait(&event), Err(Error::EventsOfTwoDevices)));
    assert!(matches!(event.record_again(&stream), Err(Error::EventsOfTwoDevices)));
}
