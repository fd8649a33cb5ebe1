//! The tests of this crate's public interface, linked once: a module for each subject.

mod conformance;
mod faulty_store;
mod model;
