/// Whose turn it is among what is ready at the same time.
///
/// While something of the first turn is ready, nothing of the usual one is called. So the first turn is for what ends
/// soon by itself, such as sending what was decided. What a peer could keep ready for ever would starve all others.
package enum LoopTurn: Int32, Sendable {
    case first = 0
    case usual = 1

    static let count: Int32 = 2
}
