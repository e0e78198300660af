/work/main/tests/mutants-at-once/target/debug/deps/rdmascope_mutants_at_once-c66f781a8c5c66dd.d: src/main.rs

/work/main/tests/mutants-at-once/target/debug/deps/librdmascope_mutants_at_once-c66f781a8c5c66dd.rmeta: src/main.rs

src/main.rs:
