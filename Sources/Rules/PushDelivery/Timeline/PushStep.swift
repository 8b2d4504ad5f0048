/// The steps of a push to the provider, reported as they happen.
package enum PushStep: Hashable, Sendable {
    /// The push waits for its turn.
    ///
    /// - Parameter app: the name of its app.
    case queued(app: String)
    /// The push was refused before it was queued; ``finished(_:)`` follows.
    case refused(PushRefusal)
    /// A try was passed to the HTTP client: the first try, or a try after a pause.
    case sent
    /// The result of a try: the status of an answer, or else the error of the HTTP client.
    case answered(PushOutcome, status: Int?, problem: String?)
    /// The outcome of the push. No more tries follow.
    case finished(PushOutcome)
    /// The push was withdrawn before it had an outcome.
    case withdrawn
}

/// Why a push was refused before it was queued.
package enum PushRefusal: Hashable, Sendable {
    case queueFull
    /// The token belongs to no app of the settings.
    case noApp
    /// An operator has paused the provider.
    case paused
}
