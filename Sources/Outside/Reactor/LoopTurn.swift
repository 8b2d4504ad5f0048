/// Whose turn it is among what is ready at the same time.
///
/// While something of one turn is ready, nothing of a later one is called. So the first turn is for what ends soon by
/// itself, such as sending what was decided; what a peer could keep ready for ever would starve all others. The last turn is
/// for what may wait, such as connections that will want a handshake.
///
/// Datagrams and trusted peers have the usual turn. The connections of phones have one behind it, so that calls do not stand
/// in one row with thousands of connections on which something happens in the same moment. Who always has more gives way to
/// them now and then (``ConnectionTurns/giveWay(_:)``).
///
/// A watch stands in no earlier turn than the timer that ends it: ready all the time, it would keep that from being called.
package enum LoopTurn: Int32, Comparable, Sendable {
    case first = 0
    case usual = 1
    case connections = 2
    case last = 3

    static let count: Int32 = 4

    package static func < (one: LoopTurn, other: LoopTurn) -> Bool { one.rawValue < other.rawValue }
}
