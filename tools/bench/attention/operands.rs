//! The operands of a case: random values, on the host and on the device.

use super::case::{Case, Order};
use anyhow::Result;
use moye::number::Scalar;
use moye::{Attention, AttentionElement, Buffer, Device, Heads};

/// The operands on the host. Tensors of options that are off are empty.
pub struct Operands<T> {
    pub q: Vec<T>,
    pub k: Vec<T>,
    pub v: Vec<T>,
    /// For each pair of query and key.
    pub bias: Vec<T>,
    pub mask: Vec<u8>,
    /// For each query head.
    pub slopes: Vec<f32>,
    pub sinks: Vec<f32>,
    /// Page numbers of each sequence.
    pub table: Vec<i32>,
}

impl<T: Scalar> Operands<T> {
    /// Random values from -1 to 1.
    pub fn random(case: &Case) -> Self {
        let Case { batches, heads, kv_heads, queries, keys, d, dv, options, order, .. } = *case;
        let mut random = fastrand::Rng::with_seed(1);
        let mut draw = |elements: usize| -> Vec<T> {
            (0..elements).map(|_| T::nearest(f64::from(2.0 * random.f32() - 1.0))).collect()
        };
        let rows = batches * kv_heads * keys;
        let q = draw(batches * heads * queries * d);
        let (k, v) = (draw(rows * d), draw(rows * dv));
        let bias = draw(if options.bias { queries * keys } else { 0 });
        let of = |on: bool, elements: usize| 0..if on { elements } else { 0 };
        // Seven of eight keys are visible.
        let mask = of(options.mask, queries * keys).map(|_| u8::from(random.u8(..) >= 32)).collect();
        let slope = |head: usize| (-8.0 * (head + 1) as f32 / heads as f32).exp2();
        let slopes = of(options.alibi, heads).map(slope).collect();
        let sinks = of(options.sinks, heads).map(|_| 2.0 * random.f32() - 1.0).collect();
        let mut table = Vec::new();
        if let Order::Pages(page) = order {
            table.extend(0..(batches * keys / page) as i32);
            random.shuffle(&mut table);
        }
        Self { q, k, v, bias, mask, slopes, sinks, table }
    }
}

/// The operands on the device.
pub struct OnDevice<T: AttentionElement> {
    qkv: [Buffer<T>; 3],
    bias: Buffer<T>,
    mask: Buffer<u8>,
    slopes: Buffer<f32>,
    sinks: Buffer<f32>,
    table: Buffer<i32>,
    /// The offsets of queries and of keys.
    offsets: [Buffer<i32>; 2],
}

impl<T: AttentionElement> OnDevice<T> {
    /// Uploads `operands`.
    pub fn of(device: &Device, case: &Case, operands: &Operands<T>) -> Result<Self> {
        let offsets = |length: usize| {
            device.upload(&(0..=case.batches).map(|i| (i * length) as i32).collect::<Vec<i32>>())
        };
        let Operands { q, k, v, bias, mask, slopes, sinks, table } = operands;
        Ok(Self {
            qkv: [device.upload(q)?, device.upload(k)?, device.upload(v)?],
            bias: device.upload(bias)?,
            mask: device.upload(mask)?,
            slopes: device.upload(slopes)?,
            sinks: device.upload(sinks)?,
            table: device.upload(table)?,
            offsets: [offsets(case.queries)?, offsets(case.keys)?],
        })
    }

    /// The call of a case.
    pub fn call(&self, case: &Case) -> Result<Attention<'_, T>> {
        let Case { batches, kv_heads, queries, keys, options, order, .. } = *case;
        let [k_shape, v_shape] = [case.d, case.dv].map(|columns| match order {
            Order::Batches => [batches, kv_heads, keys, columns],
            Order::Offsets => [1, kv_heads, batches * keys, columns],
            Order::Pages(page) => [batches * keys / page, kv_heads, page, columns],
        });
        let [q, k, v] = &self.qkv;
        let mut call = Attention::new(
            Heads::head_first(q, case.query_shape(case.d))?,
            Heads::head_first(k, k_shape)?,
            Heads::head_first(v, v_shape)?,
        );
        // SAFETY: the offsets end with the tensors, and the table has each page once.
        call = unsafe {
            match order {
                Order::Batches => call,
                Order::Offsets => call.variable_length(&self.offsets[0], &self.offsets[1], [queries, keys]),
                Order::Pages(page) => call.pages(&self.table, keys / page),
            }
        };
        let [left, right] = options.window;
        call = call.window(left, right);
        if options.softcap != 0.0 {
            call = call.softcap(options.softcap);
        }
        if options.alibi {
            call = call.alibi(&self.slopes);
        }
        if options.sinks {
            call = call.sinks(&self.sinks);
        }
        // Heads and sequences share them.
        if options.bias {
            call = call.bias(&self.bias, [0, 0, keys, 1]);
        }
        if options.mask {
            call = call.mask(&self.mask, [0, 0, keys, 1]);
        }
        Ok(match case.splits {
            Some(splits) => call.splits(splits),
            None => call,
        })
    }
}

impl Case {
    /// The shape of queries and results, with heads of `columns` columns.
    pub(super) fn query_shape(&self, columns: usize) -> [usize; 4] {
        let Self { batches, heads, queries, .. } = *self;
        match self.order {
            Order::Offsets => [1, heads, batches * queries, columns],
            _ => [batches, heads, queries, columns],
        }
    }
}
