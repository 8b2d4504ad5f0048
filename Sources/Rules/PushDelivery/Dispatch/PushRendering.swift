/// A push as its provider wants it, or why there cannot be one.
package enum PushRendering: Hashable, Sendable {
    case request(ProviderRequest)
    case impossible(PushOutcome)
}
