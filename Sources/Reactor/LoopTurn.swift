/// Whose turn it is among what is ready at the same time.
///
/// While something of one turn is ready, nothing of a later one is called. So the first turn is for what ends soon by
/// itself, such as sending what was decided; what a peer could keep ready for ever would starve all others. The last turn is
/// for what may wait, such as connections that will want a handshake.
package enum LoopTurn: Int32, Sendable {
    case first = 0
    case usual = 1
    case last = 2

    static let count: Int32 = 3
}
