/// What happens to a push on its way to the provider, told as it happens.
package enum PushStep: Hashable, Sendable {
    /// Handed to HTTP: the first try, or one after a pause.
    case sent
    /// What became of that try; the status when there was an answer.
    case answered(PushOutcome, status: Int?)
    /// The last word: no more tries.
    case finished(PushOutcome)
    /// Taken back before there was a last word.
    case withdrawn
}
