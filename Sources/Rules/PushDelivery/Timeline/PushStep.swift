/// The steps of a push to the provider, reported as they happen.
package enum PushStep: Hashable, Sendable {
    /// The push waits for its turn.
    ///
    /// - Parameter app: the name of its app.
    case queued(app: String)
    /// The push is not even queued; ``finished(_:)`` follows.
    case refused(PushRefusal)
    /// A try was passed to HTTP: the first one, or one after a pause.
    case sent
    /// The result of that try: the status of an answer, otherwise the error of the HTTP client.
    case answered(PushOutcome, status: Int?, problem: String?)
    /// The outcome of the push. No more tries follow.
    case finished(PushOutcome)
    /// The push was withdrawn before it had an outcome.
    case withdrawn
}

/// Why a push is not even queued.
package enum PushRefusal: Hashable, Sendable {
    case queueFull
    /// The token belongs to no app of the settings.
    case noApp
}
