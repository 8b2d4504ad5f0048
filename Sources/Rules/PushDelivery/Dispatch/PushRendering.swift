/// The HTTP request for a push, or the outcome of a push for which no request can be built.
package enum PushRendering: Hashable, Sendable {
    case request(ProviderRequest)
    case impossible(PushOutcome)
}
