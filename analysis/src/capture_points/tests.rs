use super::*;
use crate::capture_points::sample::Pair;
use rdmascope_dissector::record::Time;
use std::net::Ipv4Addr;

fn route(source: u8, destination: u8) -> Route {
    let address = |host| Address::V4(Ipv4Addr::new(10, 0, 0, host));
    Route { source: address(source), destination: address(destination) }
}

/// Packets between two hosts, a millisecond apart. The transit time from the first to the second
/// capture point is 10 us from host 1 to host 2, and 30 us back. The clock of the second capture
/// point is 1 s late.
fn pairs() -> Vec<Pair> {
    (0..400i64)
        .map(|index| {
            let at = index * 1_000_000;
            match index % 2 {
                0 => Pair { route: route(1, 2), at: [Time(at), Time(at + 10_000 - 1_000_000_000)] },
                _ => Pair { route: route(2, 1), at: [Time(at + 30_000), Time(at - 1_000_000_000)] },
            }
        })
        .collect()
}

#[test]
fn transit_times_show_the_nearer_end() {
    let directions = directions(&pairs());
    assert!(directions[&route(1, 2)] && !directions[&route(2, 1)]);
    let tie = tie_pair(&pairs());
    // The middle between the bounds, which is right for equal transit times in both directions.
    assert_eq!(tie.parts[0].line.offset, 1_000_000_000 + 10_000);
    let Some(Doubt::Within(doubt)) = tie.doubt() else { panic!("{tie:?}") };
    assert!((20_000..20_200).contains(&doubt), "{doubt}");
    let (distances, longest) = distances(&pairs(), &tie.clock());
    assert_eq!((distances[&route(1, 2)], distances[&route(2, 1)], longest), (20_000, -20_000, 20_000));
}
