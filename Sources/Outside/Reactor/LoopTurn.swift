/// The order in which events are handled that are ready at the same time.
///
/// While an event of one turn is ready, no event of a later turn is handled. Therefore the first turn is for work that
/// ends soon by itself, such as sending. An event that a peer could keep ready forever would block all later turns. The
/// last turn is for work that can wait, such as accepting connections.
///
/// Datagrams and trusted peers have the usual turn. Connections of phones have a later turn, so that calls do not wait
/// for thousands of busy connections. A source with continuous work gives way to connections now and then
/// (``ConnectionTurns/giveWay(_:)``).
///
/// A watch may not have an earlier turn than the timer that ends it. If such a watch were always ready, its timer would
/// never be called.
package enum LoopTurn: Int32, Comparable, Sendable {
    case first = 0
    case usual = 1
    case connections = 2
    case last = 3

    static let count: Int32 = 4

    package static func < (one: LoopTurn, other: LoopTurn) -> Bool { one.rawValue < other.rawValue }
}
