//! The contract of types that follow a session.

use rdmascope_capture_agent::Note;
use rdmascope_dissector::engine::Config;
use rdmascope_dissector::event::Event;

/// A type that follows a session by the events of an engine.
///
/// A tuple of observers is an observer, and so is an `Option` of one. Each member gets every event,
/// and the engine reports everything that any member needs.
pub trait Observer {
    /// The engine configuration that the observer requires. [`Config::and`] joins the needs of
    /// several.
    fn needs(&self) -> Config;

    /// Takes the next event.
    fn handle(&mut self, event: &Event<'_>);

    /// Takes a note that the capture contains in addition to packets.
    fn note(&mut self, _: &Note) {}
}

impl<O: Observer + ?Sized> Observer for &mut O {
    fn needs(&self) -> Config {
        (**self).needs()
    }

    fn handle(&mut self, event: &Event<'_>) {
        (**self).handle(event);
    }

    fn note(&mut self, note: &Note) {
        (**self).note(note);
    }
}

impl<O: Observer> Observer for Option<O> {
    fn needs(&self) -> Config {
        self.as_ref().map_or(Config::default(), O::needs)
    }

    fn handle(&mut self, event: &Event<'_>) {
        self.iter_mut().for_each(|one| one.handle(event));
    }

    fn note(&mut self, note: &Note) {
        self.iter_mut().for_each(|one| one.note(note));
    }
}

/// A function as an observer. It gets the events that every engine reports, such as transactions
/// and connections.
#[derive(Clone, Debug)]
pub struct Each<F>(pub F);

impl<F: FnMut(&Event<'_>)> Observer for Each<F> {
    fn needs(&self) -> Config {
        Config::default()
    }

    fn handle(&mut self, event: &Event<'_>) {
        (self.0)(event);
    }
}

macro_rules! tuple {
    ($($member:ident)+) => {
        #[expect(non_snake_case, reason = "a member is named as its type is")]
        impl<$($member: Observer),+> Observer for ($($member,)+) {
            fn needs(&self) -> Config {
                let ($($member,)+) = self;
                Config::default()$(.and($member.needs()))+
            }

            fn handle(&mut self, event: &Event<'_>) {
                let ($($member,)+) = self;
                $($member.handle(event);)+
            }

            fn note(&mut self, note: &Note) {
                let ($($member,)+) = self;
                $($member.note(note);)+
            }
        }
    };
}

tuple!(A B);
tuple!(A B C);
tuple!(A B C D);
tuple!(A B C D E);
