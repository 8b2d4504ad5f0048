/// The priority of an event among events that are ready at the same time.
///
/// While an event with one priority is ready, the loop handles no event with a lower priority. Only short work, such as
/// sending, has the first priority, because work of this priority delays all other work. If a peer could keep an event
/// of high priority ready forever, this event would block all lower priorities. The lowest priority of the event loop
/// is for work that can wait, such as accepting connections.
///
/// The usual priority of the event loop is for datagrams and trusted peers. Connections of phones have a lower
/// priority, so that calls do not wait for thousands of busy connections. An object that always has more work must use
/// ``ConnectionTurns/giveWay(_:)``, so that connections are served in between.
///
/// A watch on a descriptor must not have a higher priority than the timer that ends the watch, because the timer might
/// then never fire.
package enum LoopTurn: Int32, Comparable, Sendable {
    case first = 0
    case usual = 1
    case connections = 2
    case last = 3

    static let count: Int32 = 4

    package static func < (one: LoopTurn, other: LoopTurn) -> Bool { one.rawValue < other.rawValue }
}
