/// The order of events that are ready at the same time.
///
/// While an event of one turn is ready, no event of a later turn is handled. Therefore the first turn is for work that
/// ends soon by itself, such as sending. An event that a peer could keep ready forever would starve all others. The
/// last turn is for work that can wait, such as accepting connections.
///
/// Datagrams and trusted peers have the usual turn. Connections of phones have a later one, so that calls do not wait
/// for thousands of busy connections. A source with continuous work gives way to them now and then
/// (``ConnectionTurns/giveWay(_:)``).
///
/// A watch may not have an earlier turn than the timer that ends it: if the watch were always ready, the timer would
/// never be called.
package enum LoopTurn: Int32, Comparable, Sendable {
    case first = 0
    case usual = 1
    case connections = 2
    case last = 3

    static let count: Int32 = 4

    package static func < (one: LoopTurn, other: LoopTurn) -> Bool { one.rawValue < other.rawValue }
}
