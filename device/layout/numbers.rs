//! The first values of a function, in messages.

use super::text::Text;

/// ", so that no layout has the function (0, 3, 12, ...)".
pub(crate) const fn values_of<const N: usize>(
    text: &mut Text<N>,
    values: &[i64; 4],
    known: usize,
    count: i64,
) {
    if known == 0 {
        return;
    }
    text.str(", so that no layout has the function (");
    let mut i = 0;
    while i < known {
        if i > 0 {
            text.str(", ");
        }
        text.int(values[i]);
        i += 1;
    }
    if known as i64 != count {
        text.str(", ...");
    }
    text.str(")");
}
