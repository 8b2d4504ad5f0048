/// The priority of an event among events that are ready at the same time.
///
/// While an event of one priority is ready, no event of a lower priority is handled. Therefore the first priority is
/// only for short work, such as sending. An event that a peer could keep ready forever would block all lower
/// priorities. The last priority is for work that can wait, such as accepting connections.
///
/// Datagrams and trusted peers have the usual priority. Connections of phones have a lower priority, so that calls do
/// not wait for thousands of busy connections. A source with continuous work lets connections be served now and then
/// (``ConnectionTurns/giveWay(_:)``).
///
/// A watch may not have a higher priority than the timer that ends the watch. If the watch were always ready, that
/// timer would never fire.
package enum LoopTurn: Int32, Comparable, Sendable {
    case first = 0
    case usual = 1
    case connections = 2
    case last = 3

    static let count: Int32 = 4

    package static func < (one: LoopTurn, other: LoopTurn) -> Bool { one.rawValue < other.rawValue }
}
