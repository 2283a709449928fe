//! Nothing: the programs that must not compile are compiled by the test, and a package needs a
//! library.
