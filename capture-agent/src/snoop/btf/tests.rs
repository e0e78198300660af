use super::*;

/// Builds a file of types.
pub(in crate::snoop) struct Builder {
    words: Vec<u32>,
    strings: Vec<u8>,
    /// Length of the strings of vmlinux.
    before: u32,
    next: u32,
}

impl Builder {
    pub(in crate::snoop) fn new() -> Builder {
        Builder { words: Vec::new(), strings: vec![0], before: 0, next: 1 }
    }

    /// A module's file, which continues that of vmlinux.
    fn module(vmlinux: &Builder) -> Builder {
        let before = vmlinux.strings.len() as u32;
        Builder { words: Vec::new(), strings: Vec::new(), before, next: vmlinux.next }
    }

    fn name(&mut self, name: &str) -> u32 {
        if name.is_empty() {
            return 0;
        }
        let offset = self.before + self.strings.len() as u32;
        self.strings.extend(name.as_bytes());
        self.strings.push(0);
        offset
    }

    /// Adds a type. Returns its number.
    fn add(&mut self, name: &str, info: u32, rest: u32, members: &[u32]) -> u32 {
        let name = self.name(name);
        self.words.extend([name, info, rest]);
        self.words.extend(members);
        self.next += 1;
        self.next - 1
    }

    pub(in crate::snoop) fn number(&mut self, size: u32) -> u32 {
        self.add("number", kind::NUMBER << 24, size, &[8 * size])
    }

    pub(in crate::snoop) fn pointer(&mut self, to: u32) -> u32 {
        self.add("", kind::POINTER << 24, to, &[])
    }

    fn array(&mut self, of: u32, count: u32) -> u32 {
        self.add("", kind::ARRAY << 24, 0, &[of, 1, count])
    }

    /// A structure with members: name, type and offset in bytes.
    pub(in crate::snoop) fn structure(&mut self, name: &str, size: u32, members: &[(&str, u32, u32)]) -> u32 {
        let mut words = Vec::new();
        for (name, of, offset) in members {
            words.extend([self.name(name), *of, 8 * offset]);
        }
        self.add(name, kind::STRUCT << 24 | members.len() as u32, size, &words)
    }

    /// A function with parameters of these types.
    pub(in crate::snoop) fn function(&mut self, name: &str, parameters: &[u32]) {
        let words: Vec<u32> = parameters.iter().flat_map(|of| [0, *of]).collect();
        let prototype = self.add("", kind::PROTOTYPE << 24 | parameters.len() as u32, 0, &words);
        self.add(name, kind::FUNCTION << 24, prototype, &[]);
    }

    pub(in crate::snoop) fn bytes(&self) -> Vec<u8> {
        let types = 4 * self.words.len() as u32;
        let mut bytes = MAGIC.to_ne_bytes().to_vec();
        bytes.extend([1, 0]);
        for word in [24, 0, types, types, self.strings.len() as u32].iter().chain(&self.words) {
            bytes.extend(word.to_ne_bytes());
        }
        bytes.extend(&self.strings);
        bytes
    }
}

/// A structure in each file: the module's has the same name and another layout.
fn files() -> [Vec<u8>; 2] {
    let mut vmlinux = Builder::new();
    let number = vmlinux.number(4);
    let inner = vmlinux.structure("", 8, &[("deep", number, 4)]);
    let array = vmlinux.array(inner, 3);
    let constant = vmlinux.add("", kind::CONST << 24, array, &[]);
    let alias = vmlinux.add("alias_t", kind::TYPEDEF << 24, constant, &[]);
    let outer = vmlinux.structure("outer", 48, &[("first", number, 0), ("list", alias, 8), ("", inner, 40)]);
    vmlinux.structure("both", 4, &[("one", number, 0)]);
    let mut module = Builder::module(&vmlinux);
    let pointer = module.pointer(outer);
    module.structure("both", 16, &[("one", pointer, 8)]);
    module.function("work", &[number, pointer]);
    [vmlinux.bytes(), module.bytes()]
}

#[test]
fn members_and_parameters_of_two_files() {
    let [vmlinux, module] = files();
    let btf = Btf::parse(&vmlinux, Some(&module)).unwrap();
    let outer = btf.structure("outer").unwrap();
    let at = |of, name| btf.member(of, name).map(|(offset, _)| offset);
    assert_eq!((at(outer, "first"), at(outer, "list"), at(outer, "deep")), (Some(0), Some(8), Some(44)));
    assert_eq!(at(outer, "other"), None);
    // The first element of the array has the same members.
    let (_, element) = btf.member(outer, "list").unwrap();
    assert_eq!((at(element, "deep"), btf.size(element)), (Some(4), Some(8)));
    let (offset, pointer) = btf.member(btf.structure("both").unwrap(), "one").unwrap();
    assert_eq!((offset, btf.pointee(pointer), btf.size(pointer)), (8, Some(outer), Some(8)));
    assert_eq!(btf.parameter("work", "outer"), Some(Some(2)));
    assert_eq!(btf.parameter("work", "both"), Some(None));
    assert_eq!(btf.parameter("rest", "outer"), None);
    // Without the module, only the structure of vmlinux is present.
    let btf = Btf::parse(&vmlinux, None).unwrap();
    assert_eq!(btf.member(btf.structure("both").unwrap(), "one").unwrap().0, 0);
}

#[test]
fn arbitrary_bytes_do_not_panic() {
    let [vmlinux, module] = files();
    assert!(Btf::parse(b"", None).is_none() && Btf::parse(&[0; 64], None).is_none());
    for length in 0..module.len() {
        for value in [None, Some(0), Some(0xff)] {
            let mut changed = module.clone();
            match value {
                None => changed.truncate(length),
                Some(value) => changed[length] = value,
            }
            let Some(btf) = Btf::parse(&vmlinux, Some(&changed)) else { continue };
            let _any = btf.parameter("work", "outer");
            let _any = btf.structure("both").and_then(|both| btf.member(both, "one"));
        }
    }
}

/// A type that contains itself ends the search.
#[test]
fn cyclic_types_end_the_search() {
    let mut file = Builder::new();
    file.add("loop", kind::STRUCT << 24 | 1, 8, &[0, 1, 0]);
    file.add("alias", kind::TYPEDEF << 24, 2, &[]);
    let btf = Btf::parse(&file.bytes(), None).unwrap();
    assert_eq!(btf.member(TypeId(1), "name"), None);
    assert_eq!(btf.pointee(TypeId(2)), None);
}
