//! Every operation against its float64 reference: all cases, element types and memory layouts.

#[cfg(any(feature = "few", feature = "grouped", feature = "weights"))]
use moye::operation::harness;

#[cfg(feature = "block_scaled")]
mod scaled {
    use moye::operation::{Case, Declaration, Dtype, OperandOf, Value, harness};
    use moye_products::block_scaled::BLOCK_SCALED;

    /// Declares products of operands of these types with results of `out`, the types of the cases:
    /// not all kernels take all types.
    pub fn of(
        declaration: &Declaration,
        [a, b]: [Dtype; 2],
        out: &'static [Dtype],
        cases: &'static [Case],
    ) -> Declaration {
        let typed = |operand: &OperandOf| {
            let dtypes = match operand.name.trim_end_matches(|c: char| c.is_ascii_digit()) {
                "a" => vec![a].leak(),
                "b" => vec![b].leak(),
                "out" => out,
                _ => operand.dtypes,
            };
            OperandOf { dtypes, ..*operand }
        };
        let operands: Vec<_> = declaration.operands.iter().map(typed).collect();
        Declaration { operands: operands.leak(), cases, ..*declaration }
    }

    /// The types of operands with e5m2 among them.
    pub const WITH_E5M2: [[Dtype; 2]; 3] =
        [[Dtype::E4m3, Dtype::E5m2], [Dtype::E5m2, Dtype::E4m3], [Dtype::E5m2, Dtype::E5m2]];

    /// The ranges of scales, also of the first product of a list.
    pub const SCALES: &[(&str, f64, f64)] =
        &[("scale_a", 0.25, 4.0), ("scale_b", 0.25, 4.0), ("scale_a0", 0.25, 4.0), ("scale_b0", 0.25, 4.0)];

    const fn case(inputs: &'static [Option<&'static [usize]>]) -> Case {
        Case::new(inputs).ranges(SCALES)
    }
    const F32: (&str, Value) = ("dtype", Value::Dtype(Dtype::F32));
    const E4M3: (&str, Value) = ("dtype", Value::Dtype(Dtype::E4m3));

    #[test]
    fn block_scaled_products_are_those_of_float64() {
        let out = &[Dtype::Bf16, Dtype::F16];
        harness::check_with_workspace(&of(&BLOCK_SCALED, [Dtype::E4m3; 2], out, BLOCK_SCALED.cases));
    }

    #[test]
    fn scales_belong_to_rows_of_b_and_results_are_f32() {
        const CASES: &[Case] = &[
            // A scale for each row of b and each 128 elements of one.
            case(&[Some(&[70, 272]), Some(&[136, 272]), Some(&[70, 3]), Some(&[136, 1]), None])
                .options(&[F32]),
            case(&[Some(&[70, 272]), Some(&[136, 272]), Some(&[70, 3]), Some(&[136, 3]), None])
                .options(&[F32]),
            case(&[Some(&[130, 48]), Some(&[2, 72, 48]), Some(&[1, 1]), Some(&[2, 72, 1]), Some(&[2])])
                .values(&[("ends", &[9.0, 130.0])])
                .options(&[F32]),
            // Padded groups that share the scales of their rows, and a scale for each group.
            case(&[
                Some(&[3, 70, 144]),
                Some(&[3, 24, 144]),
                Some(&[1, 70, 2]),
                Some(&[3, 1, 2]),
                Some(&[3]),
            ])
            .values(&[("ends", &[5.0, 0.0, 70.0])])
            .options(&[F32]),
            case(&[Some(&[2, 70, 48]), Some(&[2, 24, 48]), Some(&[2, 1, 1]), Some(&[2, 1, 1]), Some(&[2])])
                .values(&[("ends", &[5.0, 70.0])])
                .options(&[F32]),
        ];
        harness::check(&of(&BLOCK_SCALED, [Dtype::E4m3; 2], &[Dtype::F32], CASES));
    }

    #[test]
    fn operands_of_e5m2_and_of_both_types_are_multiplied() {
        const CASES: &[Case] =
            &[case(&[Some(&[70, 144]), Some(&[200, 144]), Some(&[70, 2]), Some(&[2, 2]), None])];
        for operands in WITH_E5M2 {
            harness::check(&of(&BLOCK_SCALED, operands, &[Dtype::Bf16], CASES));
        }
    }

    #[test]
    fn results_are_quantised_with_a_scale_for_128_elements() {
        const CASES: &[Case] = &[
            case(&[Some(&[70, 144]), Some(&[200, 144]), Some(&[70, 2]), Some(&[2, 2]), None])
                .options(&[E4M3]),
            case(&[Some(&[2, 70, 48]), Some(&[2, 272, 48]), Some(&[2, 70, 1]), Some(&[2, 3, 1]), Some(&[2])])
                .values(&[("ends", &[70.0, 5.0])])
                .options(&[E4M3]),
        ];
        harness::check(&of(&BLOCK_SCALED, [Dtype::E4m3; 2], &[Dtype::E4m3], CASES));
    }
}

#[cfg(feature = "few")]
#[test]
fn products_of_few_rows_are_those_of_float64() {
    harness::check(&moye_products::few::LINEAR_FEW);
}

#[cfg(feature = "few")]
#[test]
fn a_builder_names_the_kernel_of_its_call_without_computing_it() {
    use moye::{Device, Error, Matrix, MatrixMut};
    let device = Device::sim();
    let (x, mut y) = (device.upload(&[1.0f32; 8]).unwrap(), device.upload(&[7.0f32; 2]).unwrap());
    let x = Matrix::row_major(&x, 1, 8).unwrap();
    let few = moye_products::few::LinearFew::new(x.clone(), x);
    let explained = few.explain(&device, &mut MatrixMut::row_major(&mut y, 1, 1).unwrap()).unwrap();
    assert!(explained.starts_with("linear_few_f32_"), "{explained}");
    let refused = few.explain(&device, &mut MatrixMut::row_major(&mut y, 1, 2).unwrap());
    assert!(matches!(refused, Err(Error::ShapeMismatch { .. })), "{refused:?}");
    assert_eq!(y.download().unwrap(), [7.0; 2]);
}

#[cfg(all(feature = "few", feature = "grouped"))]
#[test]
fn applied_plans_are_taken_for_their_element_type_and_those_of_other_candidates_are_not() {
    use moye::Device;
    use moye::operation::{
        Array, ArrayType, Call, Case, Declaration, Dtype, Options, Plans, TunedPlan, tune,
    };
    use moye_products::few::LINEAR_FEW;
    use moye_products::grouped::GROUPED;
    const FEW: Case = Case::new(&[Some(&[1, 8]), Some(&[1, 8]), None]);
    const GROUP: Case = Case::new(&[Some(&[1, 8]), Some(&[1, 8, 8]), Some(&[1])]).values(&[("ends", &[1.0])]);
    // Rows that are copied to rows of 16 elements: the plan is that of the copy.
    const COPIED: Case =
        Case::new(&[Some(&[2, 9]), Some(&[1, 8, 9]), Some(&[1])]).values(&[("ends", &[2.0])]);
    type Operands<'a> = &'a [(Option<&'a [usize]>, Option<Dtype>)];
    let device = Device::sim();
    let check = |declaration: &'static Declaration,
                 case: &Case,
                 [dtype, other]: [Dtype; 2],
                 shapes: Operands<'_>,
                 kernels: &[&'static str]| {
        let plans = tune(declaration, &device, case, dtype).unwrap().plans;
        let [plan] = &plans[..] else { panic!("{plans:?}") };
        assert!(plan.us <= plan.untuned_us && plan.candidates == kernels.len(), "{plan:?}");
        assert_eq!(plan.kernel, kernels[plan.candidate]);
        let kernel = |dtype: Dtype| {
            // The arrays have no memory: a launch would be a fault.
            let array = |&(shape, of): &(Option<&[usize]>, Option<Dtype>)| {
                let ty = ArrayType { dtype: of.unwrap_or(dtype), shape: shape?.to_vec() };
                Some(Array::row_major(&ty, 1 << 20))
            };
            let operands: Vec<_> = shapes.iter().map(array).collect();
            let call = Call { operands: &operands, options: &Options::of(declaration) };
            (declaration.explain)(&device.default_stream(), &call).unwrap().into_owned()
        };
        let apply = |candidate: usize, kernel: &str| {
            let mut plans = Plans::default();
            plans.insert(TunedPlan { candidate, kernel: kernel.to_owned(), ..plan.clone() });
            plans.apply();
        };
        let (cheapest, of_other) = (kernel(dtype), kernel(other));
        for (candidate, name) in kernels.iter().enumerate() {
            apply(candidate, name);
            assert_eq!([&kernel(dtype), &kernel(other)], [*name, &of_other]);
        }
        apply(1, "a kernel of an earlier version");
        assert_eq!(kernel(dtype), cheapest);
        apply(1, kernels[1]);
        Plans::default().apply();
        assert_eq!(kernel(dtype), cheapest);
    };
    let few: Operands<'_> =
        &[(Some(&[1, 8]), None), (Some(&[1, 8]), None), (None, None), (Some(&[1, 1]), None)];
    check(&LINEAR_FEW, &FEW, [Dtype::F32, Dtype::F16], few, &["linear_few_f32_4", "linear_few_f32_16"]);
    let group: Operands<'_> = &[
        (Some(&[1, 8]), None),
        (Some(&[1, 8, 8]), None),
        (Some(&[1]), Some(Dtype::I32)),
        (Some(&[1, 8]), None),
    ];
    let kernels = ["grouped_f16_128x256", "grouped_f16_128x256_alone", "grouped_f16_128x128"];
    check(&GROUPED, &GROUP, [Dtype::F16, Dtype::Bf16], group, &kernels);
    let copied: Operands<'_> = &[
        (Some(&[2, 9]), None),
        (Some(&[1, 8, 9]), None),
        (Some(&[1]), Some(Dtype::I32)),
        (Some(&[2, 8]), None),
    ];
    check(&GROUPED, &COPIED, [Dtype::F16, Dtype::Bf16], copied, &kernels);
}

#[cfg(feature = "few")]
#[test]
fn elements_between_rows_are_no_part_of_a_product_of_few_rows() {
    use moye::{Matrix, MatrixMut};
    // Rows of 5 elements, 8 apart, with NaN between them.
    let row = [1.0, 2.0, 3.0, 4.0, 5.0, f32::NAN, f32::NAN, f32::NAN];
    for device in harness::devices() {
        let (x, w) = (device.upload(&row).unwrap(), device.upload(&row.repeat(2)).unwrap());
        let mut y = device.upload(&[0.0f32; 2]).unwrap();
        let of = |of, rows| Matrix::new(of, rows, 5, (8, 1)).unwrap();
        moye_products::few::LinearFew::new(of(&x, 1), of(&w, 2))
            .run(&device, &mut MatrixMut::row_major(&mut y, 1, 2).unwrap())
            .unwrap();
        assert_eq!(y.download().unwrap(), [55.0, 55.0]);
    }
}

#[cfg(feature = "fused")]
#[test]
fn products_with_a_residual_and_sums_of_squares_are_those_of_float64() {
    harness::check(&moye_products::fused::LINEAR_RESIDUAL);
}

#[cfg(feature = "fused")]
#[test]
fn queries_keys_and_values_are_rotated_and_in_their_slots() {
    harness::check(&moye_products::fused::LINEAR_QKV);
}

#[cfg(feature = "fused")]
#[test]
fn products_to_e4m3_are_those_of_float64() {
    harness::check(&moye_products::fused::LINEAR_E4M3);
}

#[cfg(feature = "gated")]
#[test]
fn gated_products_are_those_of_float64() {
    harness::check_with_workspace(&moye_products::gated::LINEAR_GATED);
}

#[cfg(feature = "grouped")]
#[test]
fn grouped_products_are_those_of_float64() {
    harness::check_with_workspace(&moye_products::grouped::GROUPED);
}

#[cfg(feature = "grouped")]
#[test]
fn products_of_declared_lists_are_those_of_float64() {
    harness::check_with_workspace(&moye_products::grouped::GROUPED_PAIRS);
}

#[cfg(feature = "block_scaled_groups")]
#[test]
fn scaled_products_of_declared_lists_are_those_of_float64() {
    harness::check_with_workspace(&moye_products::block_scaled_groups::BLOCK_SCALED_PAIRS);
}

#[cfg(feature = "block_scaled_groups")]
#[test]
fn scaled_products_along_the_rows_of_groups_are_those_of_float64() {
    harness::check_with_workspace(&moye_products::block_scaled_groups::BLOCK_SCALED_K);
}

#[cfg(feature = "block_scaled_groups")]
#[test]
fn lists_and_groups_along_rows_take_operands_of_e5m2_and_of_both_types() {
    use moye::operation::{Case, Dtype, Value};
    use moye_products::block_scaled_groups::{BLOCK_SCALED_K, BLOCK_SCALED_PAIRS};
    type Shapes = &'static [Option<&'static [usize]>];
    const LIST: Shapes = &{
        let mut shapes: [Option<&[usize]>; 16] = [None; 16];
        shapes[0] = Some(&[20, 144]);
        shapes[1] = Some(&[24, 144]);
        shapes[2] = Some(&[20, 2]);
        shapes[3] = Some(&[1, 2]);
        shapes
    };
    const ALONG: Shapes = &[Some(&[140, 24]), Some(&[140, 40]), Some(&[2, 24]), Some(&[2, 40]), Some(&[2])];
    const ENDS: &[(&str, &[f64])] = &[("ends", &[130.0, 140.0])];
    for out in [Dtype::F32, Dtype::Bf16] {
        let dtype: &[_] = vec![("dtype", Value::Dtype(out))].leak();
        let of = |shapes: Shapes| Case::new(shapes).options(dtype).ranges(scaled::SCALES);
        let (list, along) = (vec![of(LIST)].leak(), vec![of(ALONG).values(ENDS)].leak());
        for operands in scaled::WITH_E5M2 {
            let out = vec![out].leak();
            harness::check(&scaled::of(&BLOCK_SCALED_PAIRS, operands, out, list));
            harness::check(&scaled::of(&BLOCK_SCALED_K, operands, out, along));
        }
    }
}

#[cfg(feature = "grouped_k")]
#[test]
fn products_along_the_rows_of_groups_are_those_of_float64() {
    harness::check_with_workspace(&moye_products::grouped_k::GROUPED_K);
}

#[cfg(feature = "moe")]
#[test]
fn layers_of_experts_are_those_of_float64() {
    harness::check_with_workspace(&moye_products::moe::MOE);
}

#[cfg(feature = "weights")]
#[test]
fn products_by_quantised_weights_are_those_of_float64() {
    harness::check_with_workspace(&moye_products::weights::LINEAR_QUANTIZED);
}

#[cfg(feature = "weights")]
#[test]
fn products_of_activations_of_8_bits_by_quantised_weights_are_those_of_float64() {
    harness::check(&moye_products::weights::LINEAR_QUANTIZED_A8);
}

#[cfg(feature = "weights")]
#[test]
fn unpacked_weights_are_those_of_float64() {
    harness::check(&moye_products::weights::UNPACK_WEIGHTS);
}
