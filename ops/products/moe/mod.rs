//! A layer of experts: the router chooses the experts that process each token's row.

#[cfg(any(not(target_arch = "nvptx64"), target_feature = "sm_90a"))]
pub mod gated;
pub mod join;
pub mod routing;

#[cfg(not(target_arch = "nvptx64"))]
pub(crate) mod call;
#[cfg(not(target_arch = "nvptx64"))]
mod cases;
#[cfg(not(target_arch = "nvptx64"))]
mod oracle;

#[cfg(not(target_arch = "nvptx64"))]
pub use host::*;
pub use join::{Join, SwiGlu};

#[cfg(not(target_arch = "nvptx64"))]
mod host {
    use super::{call, cases, oracle};
    use crate::builder::option;
    use crate::operand;
    use moye_runtime::operation::{Declaration, Dtype, OperandOf, Role, TypedCall, Value, runs};
    use moye_runtime::{Element, Matrix, MatrixMut};

    const ELEMENTS: &[Dtype] = &[Dtype::Bf16, Dtype::F16];

    /// A layer of experts.
    pub static MOE: Declaration = Declaration {
        name: call::NAME,
        summary: "mixture of experts: for each token the weighted sum of its experts' \
                  (silu(x gate^T) * (x up^T)) down^T",
        operands: &[
            OperandOf::new(Role::Input, "x", "float16 or bfloat16: (tokens, hidden)").of(ELEMENTS),
            OperandOf::new(Role::Input, "logits", "the router's logits: (tokens, experts)"),
            OperandOf::new(
                Role::Input,
                "gate_up",
                "(experts, 2 * intermediate, hidden), of the type of x: an expert's rows of the gate, then those of up",
            )
            .of(ELEMENTS),
            OperandOf::new(Role::Input, "down", "(experts, hidden, intermediate), of the type of x").of(ELEMENTS),
            OperandOf::new(Role::Result, "out", "(tokens, hidden), of the type of x").of(ELEMENTS),
        ],
        options: &[
            option("top", "experts of a token", Value::Int(2)),
            option("routing", "an expert's weight: of the softmax of all logits, or its logit", Value::Choice("softmax", call::ROUTINGS)),
            option("renormalise", "divide the weights of a token's experts by their sum", Value::Bool(false)),
            option("tile", "a block's tile of the first product, by default the one of the least estimated time", Value::Choice("auto", call::TILES)),
        ],
        results: call::results,
        // SAFETY: the contract of `Declaration::run`.
        run: |stream, call| unsafe { call::run(stream, call) },
        explain: |stream, call| call::explain(stream, call).map(Into::into),
        reference: oracle::moe,
        tolerance: oracle::tolerance,
        cases: cases::CASES,
        bench: cases::BENCH,
    };

    /// A layer of experts with SwiGLU.
    ///
    /// ```
    /// use moye::half::bf16;
    /// use moye::{Device, Matrix, MatrixMut};
    /// use moye_products::moe::Moe;
    ///
    /// let device = Device::sim();
    /// let of = |values: &[f32]| device.upload(&Vec::from_iter(values.iter().map(|&x| bf16::from_f32(x))));
    /// // Two tokens of one element; each has another one of two experts.
    /// let (x, logits) = (of(&[1.0, 2.0])?, device.upload(&[5.0f32, 0.0, 0.0, 5.0])?);
    /// // An expert's gate and up projection, and its way back.
    /// let (gate_up, down) = (of(&[20.0, 1.0, 20.0, 1.0])?, of(&[1.0, -1.0])?);
    /// let mut out = device.alloc_uninit::<bf16>(2)?;
    /// Moe::new(
    ///     Matrix::row_major(&x, 2, 1)?,
    ///     Matrix::row_major(&logits, 2, 2)?,
    ///     Matrix::row_major(&gate_up, 4, 1)?,
    ///     Matrix::row_major(&down, 2, 1)?,
    /// )
    /// .top(1)
    /// .renormalised()
    /// .run(&device, &mut MatrixMut::row_major(&mut out, 2, 1)?)?;
    /// // silu(20) * 1, and -silu(40) * 2
    /// assert_eq!(out.download()?, [20.0, -80.0].map(bf16::from_f32));
    /// # Ok::<(), moye::Error>(())
    /// ```
    #[derive(Clone, Debug)]
    #[must_use = "nothing is computed before `run`"]
    pub struct Moe<'a, T: Element, L: Element> {
        x: Matrix<'a, T>,
        logits: Matrix<'a, L>,
        gate_up: Matrix<'a, T>,
        down: Matrix<'a, T>,
        top: usize,
        routing: &'static str,
        renormalise: bool,
    }

    impl<'a, T: Element, L: Element> Moe<'a, T, L> {
        /// The tokens `x`, (tokens, hidden), with the router's `logits`, (tokens, experts). The
        /// experts' matrices are stacked: in `gate_up`, (experts * 2 * intermediate,
        /// hidden), the gate and the up projection of each, in `down` (experts * hidden,
        /// intermediate).
        ///
        /// A token has the two experts of the greatest logits, weighted by the softmax of all.
        pub fn new(
            x: Matrix<'a, T>,
            logits: Matrix<'a, L>,
            gate_up: Matrix<'a, T>,
            down: Matrix<'a, T>,
        ) -> Self {
            Self { x, logits, gate_up, down, top: 2, routing: "softmax", renormalise: false }
        }

        /// The number of a token's experts, 32 at most.
        pub fn top(self, top: usize) -> Self {
            Self { top, ..self }
        }

        /// The logits are the weights: no softmax is applied.
        pub fn plain(self) -> Self {
            Self { routing: "plain", ..self }
        }

        /// The weights of a token's experts are divided by their sum.
        pub fn renormalised(self) -> Self {
            Self { renormalise: true, ..self }
        }

        runs! {
            /// Computes it on the default stream of a device, of f16 or bf16 and at most 512
            /// experts: on the simulator and on sm_90a.
            fn run, run_on, explain(self, stream, out: &mut MatrixMut<'_, T>) {
                let experts = self.logits.cols();
                let gate_up = operand::stacked(call::NAME, "gate_up", &self.gate_up, experts)?;
                let down = operand::stacked(call::NAME, "down", &self.down, experts)?;
                let top = i64::try_from(self.top).unwrap_or(i64::MAX);
                TypedCall::new(&MOE, stream)
                    .option("top", Value::Int(top))?
                    .choose("routing", self.routing)?
                    .option("renormalise", Value::Bool(self.renormalise))?
                    .read(&self.x)?
                    .read(&self.logits)?
                    .with(Some((self.gate_up.device(), gate_up)))?
                    .with(Some((self.down.device(), down)))?
                    .write(out)?
            }
        }
    }
}
