/// A step in the delivery of a push to its provider, reported as it happens.
package enum PushStep: Hashable, Sendable {
    /// The push waits for its turn.
    ///
    /// - Parameter app: the name of its app.
    case queued(app: String)
    /// The push was refused before it was queued; ``finished(_:)`` follows.
    case refused(PushRefusal)
    /// A request was passed to the HTTP client, for the first or a later try.
    case sent
    /// The result of a try: the HTTP status of the answer, or else the error of the HTTP client.
    case answered(PushOutcome, status: Int?, problem: String?)
    /// The outcome of the push, after which no more tries follow.
    case finished(PushOutcome)
    /// The push was withdrawn before it had an outcome.
    case withdrawn
}

/// The reason why a push was refused before it was queued.
package enum PushRefusal: Hashable, Sendable {
    case queueFull
    /// The token belongs to no app in the settings.
    case noApp
    /// An operator has paused the provider.
    case paused
}
