/// The priority of an event among events that are ready at the same time.
///
/// While an event is ready, the loop handles no event with a lower priority. The first priority is for short work only,
/// such as sending, because work of this priority delays all other work. A peer must not be able to keep an event of
/// high priority ready, because the event would block lower priorities. The lowest priority is for work that can wait,
/// such as accepting connections.
///
/// The usual priority is for datagrams and trusted peers. Connections of phones have a lower priority than datagrams,
/// so that calls do not wait for thousands of busy connections. An object that always has more work uses
/// ``ConnectionTurns/giveWay(_:)``, so that connections are served in between.
///
/// A watch must not have a higher priority than the timer of its deadline: otherwise the timer might never fire.
package enum LoopTurn: Int32, Comparable, Sendable {
    case first = 0
    case usual = 1
    case connections = 2
    case last = 3

    static let count: Int32 = 4

    package static func < (one: LoopTurn, other: LoopTurn) -> Bool { one.rawValue < other.rawValue }
}
