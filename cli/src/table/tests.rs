use super::*;
use clap::Parser;
use rdmascope_present::column::{Align, Cell, Column, Read, Role};

/// Number, size, and time in seconds.
struct Thing(u64, Option<u64>, i64);

impl Subject for Thing {
    type Of<'a> = &'a Thing;
}

static THING: Columns<Thing> = {
    type C = Column<Thing>;
    Columns {
        name: "thing",
        role: Role::Line,
        columns: &[
            C::new("number", Read::U64(|it| Some(it.0)), "A number.").text(1, "#", Align::Right(2)),
            C::new("size", Read::U64(|it| it.1), "A size.").or_null(),
            C::new("time", Read::Time(|it| Some(seconds(it.2))), "A time.").cell(
                0,
                "seconds",
                Align::Right(9),
                Cell::Instant(|it| Some(seconds(it.2))),
            ),
            C::new("tags", Read::Texts(|_, see| see("x")), "Tags."),
        ],
    }
};

fn seconds(seconds: i64) -> Time {
    Time(seconds * 1_000_000_000)
}

const THINGS: [Thing; 6] = [
    Thing(1, Some(5), 10),
    Thing(2, None, 12),
    Thing(3, Some(9), 15),
    Thing(4, Some(5), 19),
    Thing(5, Some(1), 24),
    Thing(6, None, 30),
];

#[derive(Parser)]
#[command(
    mut_arg("fields", |fields| fields.value_parser(FieldName::any(&THING))),
    mut_arg("condition", |condition| condition.value_parser(expression_about(&THING))),
    mut_arg("sort", |sort| sort.value_parser(FieldName::key(&THING))),
)]
struct Line {
    #[command(flatten)]
    table: Table,
}

fn parsed(options: &str) -> Result<Line, clap::Error> {
    Line::try_parse_from(["list"].into_iter().chain(options.split_whitespace()))
}

/// The output for the things, in a capture that starts at 10 s.
fn written(options: &str) -> String {
    let line = parsed(options).unwrap_or_else(|error| panic!("{error}"));
    let mut rows = line.table.rows(&THING, Style::default()).unwrap();
    let mut out = Vec::new();
    for thing in &THINGS {
        rows.row(thing, seconds(10), &mut out).unwrap();
        if let Order::Sorted { kept, most: Some(most), .. } = &rows.order {
            assert!(kept.len() as u64 <= *most, "{options}");
        }
    }
    rows.end(&mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// The numbers of the things, in output order.
fn order(options: &str) -> String {
    let lines = written(&format!("--format csv --fields number {options}"));
    lines.lines().filter(|line| *line != "number").collect::<Vec<_>>().join(" ")
}

#[test]
fn lines_are_sorted() {
    assert_eq!(order(""), "1 2 3 4 5 6");
    // Lines with equal keys keep their order in both directions; lines without a value come last.
    assert_eq!(order("--sort size"), "5 1 4 3 2 6");
    assert_eq!(order("--sort size --reverse"), "3 1 4 5 2 6");
    assert_eq!(order("--sort time --reverse"), "6 5 4 3 2 1");
}

#[test]
fn top_lines_match_the_full_order() {
    for sort in ["", "--sort size", "--sort size --reverse", "--sort time --reverse", "--sort type"] {
        let all = order(sort);
        for most in 1..8 {
            let expected: Vec<_> = all.split(' ').take(most).collect();
            assert_eq!(order(&format!("{sort} --top {most}")), expected.join(" "), "{sort} --top {most}");
        }
    }
}

#[test]
fn delta_times_do_not_depend_on_the_order() {
    let lines = |options: &str| {
        let lines = written(&format!("--format tsv --fields number,time --time delta {options}"));
        lines.lines().skip(1).map(ToOwned::to_owned).collect::<Vec<_>>()
    };
    let expected =
        ["1\t0.0", "2\t2.0", "3\t3.0", "4\t4.0", "5\t5.0", "6\t6.0"].map(|line| format!("{line}00000000"));
    assert_eq!(lines(""), expected);
    // A line that is not among the first lines still counts as the previous line.
    assert_eq!(lines("--sort number --reverse --top 2"), [&*expected[5], &*expected[4]]);
    assert_eq!(lines("--sort size --top 1"), [&*expected[4]]);
    let text = "    delta  #\n 5.000000  5\n";
    assert_eq!(written("--time delta --sort size --top 1"), text);
}

#[test]
fn text_uses_the_selected_clock() {
    let first = |options: &str| {
        let text = written(options);
        text.lines().take(2).map(ToOwned::to_owned).collect::<Vec<_>>().join("\n")
    };
    assert_eq!(first("--sort size"), "  seconds  #\n14.000000  5");
    assert_eq!(
        first("--time absolute"),
        format!("time{} #\n1970-01-01T00:00:10.000000000Z  1", " ".repeat(27))
    );
    let picked = "number   size time    \n     1      5 0.000000";
    let lines = first("--fields number,size,time");
    assert_eq!(lines.split_whitespace().collect::<Vec<_>>(), picked.split_whitespace().collect::<Vec<_>>());
}

#[test]
fn selected_fields_are_aligned_and_folded() {
    let text = written("--fields number,tags,size --top 2");
    assert_eq!(
        text,
        "  number tags             size\n       1 x                   5\n       2 x                   -\n"
    );
    let line = parsed("--fields number,tags,size --top 1").unwrap();
    let mut rows = line.table.rows(&THING, Style::default().with_width(Some(24))).unwrap();
    let mut out = Vec::new();
    rows.head(&mut out).unwrap();
    rows.row(&THINGS[0], seconds(10), &mut out).unwrap();
    let folded = "  number tags\n            size\n       1 x\n               5\n";
    assert_eq!(String::from_utf8(out).unwrap(), folded);
}

#[test]
fn json_lines_have_the_selected_fields() {
    assert_eq!(
        written("--format jsonl --fields size,type --sort size --top 1"),
        "{\"type\":\"thing\",\"size\":1}\n"
    );
    let all = written("--format jsonl --top 1");
    assert_eq!(
        all,
        "{\"type\":\"thing\",\"number\":1,\"size\":5,\"time\":\"1970-01-01T00:00:10.000000000Z\",\"tags\":[\"x\"]}\n"
    );
    assert!(parsed("--format jsonl --time delta").unwrap().table.rows(&THING, Style::default()).is_err());
}

#[test]
fn unknown_fields_are_refused_with_a_suggestion() {
    let complaint = |options: &str| parsed(options).err().unwrap_or_else(|| panic!("{options}")).to_string();
    assert!(
        complaint("--fields number,szie").contains("a thing has no field with this name: did you mean size?")
    );
    assert!(
        complaint("--sort tagz").contains("a thing has no field with this name\n"),
        "{}",
        complaint("--sort tagz")
    );
    assert!(complaint("--sort tags").contains("cannot be a sort key"));
    assert!(complaint("--top 0").contains("0 is not in"));
    assert!(complaint("--reverse").contains("--sort"));
    assert!(parsed("--fields Number,SIZE --sort Time").is_ok());
}
