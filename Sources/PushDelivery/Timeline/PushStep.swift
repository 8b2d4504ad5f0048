/// What happens to a push on its way to the provider, told as it happens.
package enum PushStep: Hashable, Sendable {
    /// It waits for its turn.
    ///
    /// - Parameter app: the name of the app whose way it goes.
    case queued(app: String)
    /// The push cannot even wait; ``finished(_:)`` follows.
    case refused(PushRefusal)
    /// Handed to HTTP: the first try, or one after a pause.
    case sent
    /// What became of that try: the status when there was an answer, else what the HTTP client says.
    case answered(PushOutcome, status: Int?, problem: String?)
    /// The last word: no more tries.
    case finished(PushOutcome)
    /// Taken back before there was a last word.
    case withdrawn
}

/// Why a push is not even queued.
package enum PushRefusal: Hashable, Sendable {
    case queueFull
    /// No app of the settings is meant by its token.
    case noApp
}
