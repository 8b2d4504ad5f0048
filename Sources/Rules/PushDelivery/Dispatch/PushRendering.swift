/// The HTTP request for a push, or the reason why there can be none.
package enum PushRendering: Hashable, Sendable {
    case request(ProviderRequest)
    case impossible(PushOutcome)
}
