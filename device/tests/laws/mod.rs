//! The law of each operation, on random layouts: nested to depth 3, with extents of 1 and strides
//! of 0.

mod answered;
mod coalesce;
mod composition;
mod coordinates;
mod divide;
mod inverses;
mod making;
mod product;
mod recast;
mod strategies;
mod swizzle;
mod text;
