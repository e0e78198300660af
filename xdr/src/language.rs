//! The XDR language (RFC 4506, section 6), with RPC programs (RFC 5531, section 12.2).
//!
//! The parser reads only descriptions that are compiled into the program. It panics on errors,
//! which tests find. Names are those of the description.

use crate::naming::{Names, Row};
use alloc::boxed::Box;
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// A parsed description.
#[derive(Debug, Default)]
pub struct Language {
    constants: BTreeMap<&'static str, i64>,
    /// The constants in the order of the description.
    in_order: Vec<Constant>,
    /// [`Type::Named`] by name.
    names: BTreeMap<&'static str, Type>,
    types: Vec<Defined>,
    procedures: BTreeMap<(u32, u32, u32), Procedure>,
    attributes: BTreeMap<u32, Attribute>,
}

/// A constant, or a value of an enumeration.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Constant {
    pub(crate) name: &'static str,
    pub(crate) value: i64,
}

/// An attribute of NFS version 4 (RFC 8881, section 5).
#[derive(Clone, Debug)]
pub struct Attribute {
    /// Name in lower case.
    pub name: String,
    /// Type of the value.
    pub of: Type,
}

/// A type.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    /// No data.
    Void,
    /// A 32-bit integer.
    Int,
    /// An unsigned 32-bit integer.
    Unsigned,
    /// A 64-bit integer.
    Hyper,
    /// An unsigned 64-bit integer.
    UnsignedHyper,
    /// A boolean, a word that is 0 or 1.
    Bool,
    /// A type with a name: an index for [`Language::defined`].
    Named(usize),
    /// Opaque data.
    Opaque(Length),
    /// Text, preceded by its length.
    String,
    /// An array.
    Array(Box<Type>, Length),
    /// A value that may be absent.
    Optional(Box<Type>),
}

/// The length of opaque data in bytes, or of an array in elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Length {
    /// A fixed length.
    Fixed(u32),
    /// A variable length, encoded before the data, with this maximum.
    Most(u32),
}

/// A type with its name.
#[derive(Debug)]
pub struct Defined {
    /// Name in the description.
    pub name: &'static str,
    /// The definition.
    pub form: Form,
    /// Names of the bits or numbers of an alias.
    pub names: Option<Box<Names>>,
}

/// The definition of a named type.
#[derive(Debug)]
pub enum Form {
    /// Another name for a type.
    Alias(Type),
    /// Values and their names, ordered by value.
    Enumeration(Vec<(u32, &'static str)>),
    /// Consecutive members.
    Structure(Vec<Member>),
    /// A discriminated union.
    Union {
        /// The discriminant.
        switch: Member,
        /// The values of each arm, and its content.
        arms: Vec<(Vec<u32>, Member)>,
        /// The default arm. `None` if other values are invalid.
        default: Option<Member>,
    },
    /// A type that was referenced but not yet defined. Exists only during parsing.
    Awaited,
}

/// A member of a structure or union, or a declaration.
#[derive(Clone, Debug)]
pub struct Member {
    /// Name; empty for `void`.
    pub name: &'static str,
    /// Type.
    pub of: Type,
    /// Names of its bits or numbers, if its type does not have names.
    pub names: Option<Box<Names>>,
}

/// The arguments and results of a procedure.
#[derive(Debug)]
pub struct Procedure {
    /// Name in the description.
    pub name: &'static str,
    /// Type of the arguments.
    pub arguments: Type,
    /// Type of the results.
    pub results: Type,
}

impl Language {
    /// Parses a description of the program. `rows` name bits and numbers.
    ///
    /// # Panics
    /// Panics if the text is not valid XDR language or a row refers to something that it does not
    /// define.
    pub(crate) fn known(text: &'static str, rows: &[Row]) -> Language {
        let mut parser = Parser { words: words(text), at: 0, language: Language::default() };
        while parser.at < parser.words.len() {
            parser.definition();
        }
        let awaited = parser.language.types.iter().find(|defined| matches!(defined.form, Form::Awaited));
        assert!(awaited.is_none(), "{awaited:?} is not defined");
        for row in rows {
            parser.language.name(row);
        }
        parser.language.attributes = parser.attributes();
        parser.language
    }

    /// Attaches the names of a row to its types and members.
    fn name(&mut self, row: &Row) {
        let names = Box::new(row.names(&self.in_order));
        for place in row.places {
            let found = match place.split_once('.') {
                None => self.type_of_name(place).map(|defined| &mut defined.names),
                Some((owner, name)) => self.type_of_name(owner).and_then(|defined| {
                    let member = defined.members().find(|member| member.name == name)?;
                    Some(&mut member.names)
                }),
            };
            let found = found.unwrap_or_else(|| panic!("{place} is not defined"));
            assert!(found.replace(names.clone()).is_none(), "{place} has two rows");
        }
    }

    fn type_of_name(&mut self, name: &str) -> Option<&mut Defined> {
        let Type::Named(index) = self.names.get(name)? else { return None };
        self.types.get_mut(*index)
    }

    /// Finds a procedure by program, version and number.
    pub fn procedure(&self, program: u32, version: u32, number: u32) -> Option<&Procedure> {
        self.procedures.get(&(program, version, number))
    }

    /// Returns the type with the index of a [`Type::Named`].
    ///
    /// # Panics
    /// Panics if the index is out of range, which is possible for an index of another description.
    pub fn defined(&self, index: usize) -> &Defined {
        &self.types[index]
    }

    /// Finds a type by name.
    pub fn named(&self, name: &str) -> Option<&Type> {
        self.names.get(name)
    }

    /// Returns the enumerators of an enumeration, ordered by value.
    pub fn enumerators(&self, name: &str) -> Option<&[(u32, &'static str)]> {
        let Type::Named(index) = self.named(name)? else { return None };
        match &self.defined(*index).form {
            Form::Enumeration(values) => Some(values),
            _ => None,
        }
    }

    /// Finds an NFSv4 attribute by number.
    pub fn attribute(&self, number: u32) -> Option<&Attribute> {
        self.attributes.get(&number)
    }
}

impl Defined {
    /// Finds a member of a structure by name.
    pub fn member(&self, name: &str) -> Option<&Member> {
        let Form::Structure(members) = &self.form else { return None };
        members.iter().find(|member| member.name == name)
    }

    fn members(&mut self) -> impl Iterator<Item = &mut Member> {
        let (first, others): (&mut [Member], Option<&mut Member>) = match &mut self.form {
            Form::Structure(members) => (members, None),
            Form::Union { switch, .. } => (&mut [], Some(switch)),
            _ => (&mut [], None),
        };
        first.iter_mut().chain(others)
    }
}

/// Splits a description into words and punctuation, without comments.
fn words(text: &'static str) -> Vec<&'static str> {
    let mut words = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start();
        if let Some(comment) = rest.strip_prefix("/*") {
            let end = comment.find("*/").expect("the comment ends");
            rest = &comment[end + 2..];
            continue;
        }
        let Some(first) = rest.chars().next() else { return words };
        let is_part =
            |character: char| character.is_ascii_alphanumeric() || character == '_' || character == '-';
        let length = match is_part(first) {
            true => rest.find(|character| !is_part(character)).unwrap_or(rest.len()),
            false => first.len_utf8(),
        };
        words.push(&rest[..length]);
        rest = &rest[length..];
    }
}

struct Parser {
    words: Vec<&'static str>,
    at: usize,
    language: Language,
}

impl Parser {
    /// Collects the NFSv4 attributes. For each constant `FATTR4_X` a type `fattr4_x` must exist.
    fn attributes(&self) -> BTreeMap<u32, Attribute> {
        let attribute = |(constant, number): (&&str, &i64)| {
            let name = constant.strip_prefix("FATTR4_")?.to_lowercase();
            let of = self.language.names.get(&*format!("fattr4_{name}"));
            let of = of.unwrap_or_else(|| panic!("{constant} has no type")).clone();
            Some((*number as u32, Attribute { name, of }))
        };
        self.language.constants.iter().filter_map(attribute).collect()
    }

    fn peek(&self) -> &'static str {
        self.words.get(self.at).copied().unwrap_or_default()
    }

    fn next(&mut self) -> &'static str {
        self.at += 1;
        self.words[self.at - 1]
    }

    fn takes(&mut self, word: &str) -> bool {
        let is_next = self.peek() == word;
        self.at += usize::from(is_next);
        is_next
    }

    fn expect(&mut self, word: &str) {
        let found = self.next();
        assert_eq!(found, word, "after {:?}", &self.words[self.at.saturating_sub(12)..self.at]);
    }

    fn definition(&mut self) {
        match self.next() {
            "const" => {
                let name = self.next();
                self.expect("=");
                let value = self.value();
                self.constant(name, value);
            }
            "typedef" => {
                if let Some(Member { name, of, .. }) = self.declaration() {
                    self.define(name, Form::Alias(of));
                }
            }
            "enum" => {
                let name = self.next();
                let form = self.enumeration();
                self.define(name, form);
            }
            "struct" => {
                let name = self.next();
                self.expect("{");
                let mut members = Vec::new();
                while !self.takes("}") {
                    members.extend(self.declaration());
                    self.expect(";");
                }
                self.define(name, Form::Structure(members));
            }
            "union" => {
                let name = self.next();
                let form = self.union();
                self.define(name, form);
            }
            "program" => self.program(),
            word => panic!("{word} does not begin a definition"),
        }
        self.expect(";");
    }

    fn constant(&mut self, name: &'static str, value: i64) {
        let known = self.language.constants.insert(name, value);
        assert!(known.is_none(), "{name} is defined twice");
        self.language.in_order.push(Constant { name, value });
    }

    fn define(&mut self, name: &'static str, form: Form) {
        let index = self.index(name);
        let defined = &mut self.language.types[index];
        assert!(matches!(defined.form, Form::Awaited), "{name} is defined twice");
        defined.form = form;
    }

    fn index(&mut self, name: &'static str) -> usize {
        if let Some(Type::Named(index)) = self.language.names.get(name) {
            return *index;
        }
        let index = self.language.types.len();
        self.language.types.push(Defined { name, form: Form::Awaited, names: None });
        self.language.names.insert(name, Type::Named(index));
        index
    }

    fn value(&mut self) -> i64 {
        let word = self.next();
        if let Some(value) = self.language.constants.get(word) {
            return *value;
        }
        let number = match word.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16).map(|number| number as i64).ok(),
            None => word.parse().ok(),
        };
        number.unwrap_or_else(|| panic!("{word} is not a number"))
    }

    fn unsigned(&mut self) -> u32 {
        self.value() as u32
    }

    /// Parses a type and a name. Returns `None` for `void`.
    fn declaration(&mut self) -> Option<Member> {
        let of = match self.next() {
            "void" => return None,
            "opaque" => {
                let name = self.next();
                let length = self.length().expect("opaque data has a length");
                return Some(Member { name, of: Type::Opaque(length), names: None });
            }
            "string" => {
                let name = self.next();
                let length = self.length();
                assert!(matches!(length, Some(Length::Most(_))), "{name}");
                return Some(Member { name, of: Type::String, names: None });
            }
            word => self.basic(word),
        };
        if self.takes("*") {
            return Some(Member { name: self.next(), of: Type::Optional(Box::new(of)), names: None });
        }
        let name = self.next();
        match self.length() {
            Some(length) => Some(Member { name, of: Type::Array(Box::new(of), length), names: None }),
            None => Some(Member { name, of, names: None }),
        }
    }

    fn basic(&mut self, word: &'static str) -> Type {
        match word {
            "int" => Type::Int,
            "hyper" => Type::Hyper,
            "bool" => Type::Bool,
            "unsigned" if self.takes("hyper") => Type::UnsignedHyper,
            "unsigned" => {
                self.takes("int");
                Type::Unsigned
            }
            "struct" => {
                let name = self.next();
                Type::Named(self.index(name))
            }
            name => Type::Named(self.index(name)),
        }
    }

    fn length(&mut self) -> Option<Length> {
        if self.takes("[") {
            let length = self.unsigned();
            self.expect("]");
            return Some(Length::Fixed(length));
        }
        if !self.takes("<") {
            return None;
        }
        let most = if self.peek() == ">" { u32::MAX } else { self.unsigned() };
        self.expect(">");
        Some(Length::Most(most))
    }

    fn enumeration(&mut self) -> Form {
        self.expect("{");
        let mut values = Vec::new();
        loop {
            let name = self.next();
            self.expect("=");
            let value = self.value();
            self.constant(name, value);
            values.push((value as u32, name));
            if !self.takes(",") {
                break;
            }
        }
        self.expect("}");
        values.sort_by_key(|(value, _)| *value);
        Form::Enumeration(values)
    }

    fn union(&mut self) -> Form {
        const VOID: Member = Member { name: "", of: Type::Void, names: None };
        self.expect("switch");
        self.expect("(");
        let switch = self.declaration().expect("a union has a discriminant");
        self.expect(")");
        self.expect("{");
        let (mut arms, mut default) = (Vec::new(), None);
        while !self.takes("}") {
            let mut values = Vec::new();
            while self.takes("case") {
                values.push(match self.peek() {
                    "TRUE" | "FALSE" => u32::from(self.next() == "TRUE"),
                    _ => self.unsigned(),
                });
                self.expect(":");
            }
            if values.is_empty() {
                self.expect("default");
                self.expect(":");
                default = Some(self.declaration().unwrap_or(VOID));
            } else {
                arms.push((values, self.declaration().unwrap_or(VOID)));
            }
            self.expect(";");
        }
        Form::Union { switch, arms, default }
    }

    fn program(&mut self) {
        self.next();
        self.expect("{");
        let mut versions = Vec::new();
        while self.takes("version") {
            self.next();
            self.expect("{");
            let mut procedures = Vec::new();
            while !self.takes("}") {
                let results = self.plain();
                let name = self.next();
                self.expect("(");
                let arguments = self.plain();
                self.expect(")");
                self.expect("=");
                procedures.push((self.unsigned(), Procedure { name, arguments, results }));
                self.expect(";");
            }
            self.expect("=");
            versions.push((self.unsigned(), procedures));
            self.expect(";");
        }
        self.expect("}");
        self.expect("=");
        let program = self.unsigned();
        for (version, procedures) in versions {
            let keyed =
                procedures.into_iter().map(|(number, procedure)| ((program, version, number), procedure));
            self.language.procedures.extend(keyed);
        }
    }

    fn plain(&mut self) -> Type {
        match self.next() {
            "void" => Type::Void,
            word => self.basic(word),
        }
    }
}
