/// A push in its provider's form, or the reason why it is impossible.
package enum PushRendering: Hashable, Sendable {
    case request(ProviderRequest)
    case impossible(PushOutcome)
}
