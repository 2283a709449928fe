//! The element types of products: random elements, and options by type.

use anyhow::{Result, bail};
use half::{bf16, f16};
use moye::number::{F8E4M3, F8E5M2, Scalar};
use moye::operation::Dtype;
use moye::{Buffer, Element, Matmul, Operand, Output, Precision};

/// NumPy's name of an element type, for messages.
fn dtype<T: Element>() -> &'static str {
    Dtype::of::<T>().map_or(T::NAME, Dtype::name)
}

/// An element type of products.
pub trait Member: Operand + Scalar {
    /// A random element: from `[-1, 1)`, or any integer.
    fn draw(random: &mut fastrand::Rng) -> Self;

    /// Sets this precision on the product.
    fn precise<'a, U: Output<Self>>(
        product: Matmul<'a, Self, U>,
        precision: Precision,
    ) -> Result<Matmul<'a, Self, U>> {
        match precision {
            Precision::Full => Ok(product),
            Precision::Tf32 => {
                bail!("--tf32 is for float32, and these matrices are {}", dtype::<Self>())
            }
            Precision::F16Accumulators => {
                bail!("--f16-accumulators is for float16, and these matrices are {}", dtype::<Self>())
            }
        }
    }

    /// Sets scales of A's rows and B's columns on the product.
    fn scaled<'a, U: Output<Self>>(
        product: Matmul<'a, Self, U>,
        scales: [Option<&'a Buffer<f32>>; 2],
    ) -> Result<Matmul<'a, Self, U>> {
        if scales.iter().any(Option::is_some) {
            bail!("--scale-a and --scale-b are for 8-bit floats, and these matrices are {}", dtype::<Self>());
        }
        Ok(product)
    }
}

macro_rules! floats {
    ($($t:ty $(, $own:item)*;)*) => { $(
        impl Member for $t {
            fn draw(random: &mut fastrand::Rng) -> Self {
                Self::nearest(f64::from(2.0 * random.f32() - 1.0))
            }
            $($own)*
        }
    )* };
}
floats! {
    f16, fn precise<'a, U: Output<Self>>(product: Matmul<'a, Self, U>, precision: Precision) -> Result<Matmul<'a, Self, U>> {
        Ok(match precision {
            Precision::Full => product,
            Precision::F16Accumulators => product.f16_accumulators(),
            Precision::Tf32 => bail!("--tf32 is for float32, and these matrices are float16"),
        })
    };
    bf16;
    f32, fn precise<'a, U: Output<Self>>(product: Matmul<'a, Self, U>, precision: Precision) -> Result<Matmul<'a, Self, U>> {
        Ok(match precision {
            Precision::Full => product,
            Precision::Tf32 => product.tf32(),
            Precision::F16Accumulators => bail!("--f16-accumulators is for float16, and these matrices are float32"),
        })
    };
    f64;
}

macro_rules! floats_of_8_bits {
    ($($t:ty),*) => { floats! { $(
        $t,
        fn scaled<'a, U: Output<Self>>(
            product: Matmul<'a, Self, U>,
            [a, b]: [Option<&'a Buffer<f32>>; 2],
        ) -> Result<Matmul<'a, Self, U>> {
            let product = match a {
                Some(a) => product.scale_a(a),
                None => product,
            };
            Ok(match b {
                Some(b) => product.scale_b(b),
                None => product,
            })
        };
    )* } };
}
floats_of_8_bits!(F8E4M3, F8E5M2);

impl Member for i8 {
    fn draw(random: &mut fastrand::Rng) -> Self {
        random.i8(..)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn draws_are_of_the_interval() {
        let mut random = fastrand::Rng::with_seed(1);
        let mut far = 0.0f64;
        for _ in 0..1000 {
            let number = f16::draw(&mut random).to_f64();
            assert!((-1.0..=1.0).contains(&number), "{number}");
            far = far.max(number.abs());
        }
        assert!(far > 0.95, "{far}");
    }
}
