package import PushDelivery

/// A set of push providers, with one bit for each provider.
package struct ProviderSet: Hashable, Sendable {
    private var bits: UInt16 = 0

    package init(_ providers: some Sequence<PushProvider>) {
        for provider in providers { bits |= Self.bit(provider.number) }
    }

    package func contains(_ provider: PushProvider) -> Bool { contains(number: provider.number) }

    /// The providers in the set, in the order of their declaration.
    package var providers: [PushProvider] { PushProvider.allCases.filter(contains) }

    /// Whether the provider with the given number is in the set. No set contains the number 0, which means a contact
    /// without push token.
    func contains(number: UInt8) -> Bool { bits & Self.bit(number) != 0 }

    mutating func set(_ provider: PushProvider, on isOn: Bool) {
        if isOn {
            bits |= Self.bit(provider.number)
        } else {
            bits &= ~Self.bit(provider.number)
        }
    }

    private static func bit(_ number: UInt8) -> UInt16 { number == 0 ? 0 : 1 << UInt16(number & 15) }
}
