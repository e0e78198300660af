//! Columns selected by name, as cells and as JSON. The values are written by hand.

use super::Read::{
    Any, Boolean, Fraction, Key as KeyOf, Lossy, Nanoseconds, Object, Objects, Shown, Text, Texts,
    Time as Instant, U64,
};
use super::*;
use crate::serialized::Json as _;
use jiff::tz::{TimeZone, offset};

struct Thing {
    number: u64,
    time: Option<i64>,
    name: &'static [u8],
    latency: Option<u64>,
    tags: &'static [&'static str],
    end: Option<End>,
    parts: &'static [Part],
}

#[derive(Clone, Copy)]
struct End {
    address: &'static str,
    port: Option<u64>,
}

struct Part {
    handle: u32,
    length: Option<u64>,
}

impl Subject for Thing {
    type Of<'a> = &'a Thing;
}

impl Subject for End {
    type Of<'a> = End;
}

impl Subject for Part {
    type Of<'a> = &'a Part;
}

static END: Columns<End> = {
    type C = Column<End>;
    Columns {
        name: "end",
        role: Role::Inner,
        columns: &[
            C::new("address", Shown(|end, see| see(&end.address)), "An address."),
            C::new("port", U64(|end| end.port), "A port.").optional(),
            C::new("number", U64(|_| Some(7)), "A field that the line has too.").parquet_only(),
            C::new("is_far", Boolean(|_| Some(true)), "In Parquet only.").parquet_only(),
        ],
    }
};

static PART: Columns<Part> = {
    type C = Column<Part>;
    Columns {
        name: "part",
        role: Role::Inner,
        columns: &[
            C::new("handle", KeyOf(|part| Some(part.handle)), "A handle."),
            C::new("length", U64(|part| part.length), "A length.").or_null(),
        ],
    }
};

static THING: Columns<Thing> = {
    type C = Column<Thing>;
    type O<U> = Within<Thing, U>;
    Columns {
        name: "thing",
        role: Role::Line,
        columns: &[
            C::new("number", U64(|it| Some(it.number)), "A number."),
            C::new("time", Instant(|it| it.time.map(Time)), "A time.").or_null(),
            C::new("name", Lossy(|it, see| see(it.name)), "A name."),
            C::new("latency_ns", Nanoseconds(|it| it.latency), "A duration.").or_null(),
            C::new("tags", Texts(|it, see| it.tags.iter().for_each(|tag| see(tag))), "Tags.").optional(),
            C::new("end", Object(&O { columns: &END, lend: |it, see| lend(it.end, see) }), "An end.")
                .or_null(),
            C::new(
                "parts",
                Objects(&O { columns: &PART, lend: |it, see| it.parts.iter().for_each(see) }),
                "Parts.",
            ),
            C::new("an arrow", Text(|_, see| see("->")), "In text only.").text_only(),
            C::new("half", Fraction(|it| Some(it.number as f64 / 2.0)), "In Parquet only.").parquet_only(),
            C::new("value", Any("number or string", &[], |it, see| see(Value::Number(it.number))), "Any.")
                .json_only(),
            C::new("value", U64(|_| Some(99)), "Another one with that name.").parquet_only(),
        ],
    }
};

const START: Time = Time(1_763_717_400_000_000_000);

fn full() -> Thing {
    Thing {
        number: 3,
        time: Some(START.0 + 12_345_678),
        name: b"a\xffb",
        latency: Some(1_500_000),
        tags: &["x", "y z"],
        end: Some(End { address: "10.0.0.1", port: Some(20049) }),
        parts: &[Part { handle: 0x1a, length: Some(5) }, Part { handle: 0x1b, length: None }],
    }
}

fn bare() -> Thing {
    Thing { number: 4, time: None, name: b"", latency: None, tags: &[], end: None, parts: &[] }
}

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}

/// The names of the selected columns, and their cells for each thing.
fn cells(picked: &[&str], reader: CellReader, clock: Clock, things: &[Thing]) -> (String, Vec<String>) {
    let mut cells = Cells::new(Picked::cells(&THING, &names(picked)), reader, clock);
    let heading: Vec<_> = cells.columns().iter().map(|column| column.name.clone()).collect();
    let lines = things.iter().map(|thing| {
        cells.fill(thing, START);
        cells.texts().collect::<Vec<_>>().join("|")
    });
    (heading.join("|"), lines.collect())
}

fn json(picked: &[&str], thing: &Thing) -> String {
    Picked::nested(&THING, &names(picked)).line(thing).to_json()
}

#[test]
fn names_address_fields_of_objects() {
    let found = flat(&THING);
    let all: Vec<&str> = found.iter().map(|column| column.name.as_str()).collect();
    let expected = [
        "type",
        "number",
        "time",
        "name",
        "latency_ns",
        "tags",
        "end",
        "end.address",
        "end.port",
        "end.is_far",
        "parts",
        "parts.handle",
        "parts.length",
        "half",
        "value",
    ];
    assert_eq!(all, expected);
    let named = |name| find(&found, name).map(|column| column.name.as_str());
    assert_eq!(named("Latency"), Some("latency_ns"));
    assert_eq!(named("END.port"), Some("end.port"));
    assert_eq!((named("end.latency"), named("an arrow")), (None, None));
    let single: Vec<_> =
        found.iter().filter(|column| column.is_single()).map(|column| &*column.name).collect();
    let expected = [
        "type",
        "number",
        "time",
        "name",
        "latency_ns",
        "end.address",
        "end.port",
        "end.is_far",
        "half",
        "value",
    ];
    assert_eq!(single, expected);
}

#[test]
fn machine_cells_have_the_json_fields() {
    let (heading, lines) = cells(&[], CellReader::Program, Clock::Absolute, &[full(), bare()]);
    assert_eq!(heading, "number|time|name|latency_ns|tags|end.address|end.port|value");
    let expected =
        ["3|2025-11-21T09:30:00.012345678Z|a\u{fffd}b|1500000|x;y z|10.0.0.1|20049|3", "4|||||||4"];
    assert_eq!(lines, expected);
}

#[test]
fn cells_follow_the_selected_order() {
    let picked = ["parts.length", "half", "end", "number", "parts", "latency", "number", "type"];
    let (heading, lines) = cells(&picked, CellReader::Program, Clock::Absolute, &[full(), bare()]);
    assert_eq!(heading, "parts.length|half|end.address|end.port|number|parts.handle|latency_ns|type");
    assert_eq!(lines, ["5;|1.5|10.0.0.1|20049|3|0x0000001a;0x0000001b|1500000|thing", "|2|||4|||thing"]);
}

#[test]
fn human_cells_have_units() {
    let picked = ["time", "latency", "parts.handle", "end.is_far"];
    let (_, lines) = cells(&picked, CellReader::Person, Clock::Relative, &[full(), bare()]);
    assert_eq!(lines, ["0.012345|1.50ms|0x0000001a;0x0000001b|yes", "-|-|-|-"]);
}

#[test]
fn json_objects_have_only_the_selected_fields() {
    let cases = [
        (&["number", "end.port"][..], r#"{"number":3,"end":{"port":20049}}"#, r#"{"number":4,"end":null}"#),
        (
            &["parts.length", "tags"],
            r#"{"tags":["x","y z"],"parts":[{"length":5},{"length":null}]}"#,
            r#"{"parts":[]}"#,
        ),
        (
            &["end.address", "end", "latency", "type"],
            r#"{"type":"thing","latency_ns":1500000,"end":{"address":"10.0.0.1","port":20049}}"#,
            r#"{"type":"thing","latency_ns":null,"end":null}"#,
        ),
        (
            &["half", "end.is_far", "value"],
            r#"{"end":{"is_far":true},"half":1.5,"value":3}"#,
            r#"{"end":null,"half":2.0,"value":4}"#,
        ),
    ];
    for (picked, of_full, of_bare) in cases {
        assert_eq!(json(picked, &full()), of_full, "{picked:?}");
        assert_eq!(json(picked, &bare()), of_bare, "{picked:?}");
    }
}

#[test]
fn clocks() {
    let at = |nanoseconds: i64| Thing { time: Some(START.0 + nanoseconds), ..bare() };
    let times = |clock| {
        let things = [at(1_000_000_000), bare(), at(1_000_000_007), at(-5)];
        cells(&["time"], CellReader::Program, clock, &things).1
    };
    assert_eq!(times(Clock::Relative), ["1.000000000", "", "1.000000007", "-0.000000005"]);
    // A line without a time does not affect the next one.
    assert_eq!(times(Clock::Delta), ["0.000000000", "", "0.000000007", "-1.000000012"]);
    let local = Clock::Local(TimeZone::fixed(offset(-3)));
    assert_eq!(times(local)[0], "2025-11-21T06:30:01.000000000-03:00");
    let india = Clock::Local(TimeZone::posix("IST-5:30").unwrap());
    assert_eq!(times(india)[3], "2025-11-21T14:59:59.999999995+05:30");
}

#[test]
fn keys_are_ordered_and_missing_ones_come_last() {
    let order = |a: &Key, b: &Key| (a.compare(b, false), a.compare(b, true));
    use core::cmp::Ordering::{Equal, Greater, Less};
    let text = |text: &str| Key::Text(text.to_owned());
    assert_eq!(order(&Key::Number(9), &Key::Number(10)), (Less, Greater));
    assert_eq!(order(&Key::Number(-1), &Key::Number(1)), (Less, Greater));
    assert_eq!(order(&Key::Fraction(0.5), &Key::Fraction(-2.0)), (Greater, Less));
    assert_eq!(order(&text("a"), &text("b")), (Less, Greater));
    assert_eq!(order(&Key::Number(5), &text("5")), (Less, Greater));
    assert_eq!(order(&Key::Missing, &text("")), (Greater, Greater));
    assert_eq!(order(&Key::Number(5), &Key::Missing), (Less, Less));
    assert_eq!(order(&Key::Missing, &Key::Missing), (Equal, Equal));
    let key = |name, thing: &Thing| Key::of(&Picked::cells(&THING, &names(&[name])), thing);
    assert_eq!(key("latency", &full()), Key::Number(1_500_000));
    assert_eq!(key("time", &full()), Key::Number(i128::from(START.0) + 12_345_678));
    assert_eq!(key("end.address", &full()), text("10.0.0.1"));
    assert_eq!(key("half", &full()), Key::Fraction(1.5));
    for name in ["latency", "time", "end.address", "end.port"] {
        assert_eq!(key(name, &bare()), Key::Missing, "{name}");
    }
}
