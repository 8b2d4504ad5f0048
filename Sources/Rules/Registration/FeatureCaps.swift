import Bytes
import PushDelivery

/// The Feature-Caps header fields that announce the daemon's push providers (RFC 8599; RFC 6809 for the syntax).
struct FeatureCaps: Sendable {
    /// The header field values for each provider, by ``PushProvider/number``. Devices that wake up by themselves
    /// (`+sip.pnsreg`) get `withRefresh`, and all other devices get `alone`.
    private let alone, withRefresh: [[ByteString]]

    init(_ settings: RegistrarSettings) {
        func rows(refresh: UInt32?) -> [[ByteString]] {
            [[]]
                + PushProvider.allCases.map {
                    [Self.value(for: $0, refresh: refresh, vapidKey: settings.push.vapidKey)]
                }
        }
        alone = rows(refresh: nil)
        withRefresh = rows(refresh: settings.refreshSeconds)
    }

    /// The header field values that announce the provider with the given number; empty for 0, which means no push
    /// token.
    func row(of number: UInt8, refreshesItself: Bool = false) -> [ByteString] {
        let rows = refreshesItself ? withRefresh : alone
        return rows.indices.contains(Int(number)) ? rows[Int(number)] : []
    }

    /// A Feature-Caps value, such as `*;+sip.pns="fcm"`. The parameter `refresh` adds `+sip.pnsreg` in seconds (rule
    /// P5), and `vapidKey` adds the public key for web push as `+sip.vapid`.
    private static func value(for provider: PushProvider, refresh: UInt32?, vapidKey: String?) -> ByteString {
        var out: [UInt8] = []
        out.append("*;+sip.pns=\"")
        out.append(contentsOf: provider.rawValue.utf8)
        out.append("\"")
        if provider == .webPush, let vapidKey {
            out.append(";+sip.vapid=\"")
            out.append(contentsOf: vapidKey.utf8)
            out.append("\"")
        }
        if let refresh {
            out.append(";+sip.pnsreg=\"")
            out.append(decimal: refresh)
            out.append("\"")
        }
        return ByteString(out)
    }

    /// The push services that other proxies, nearer to the device, announce in a REGISTER (rule P1).
    ///
    /// Every `+sip.pns="..."` in the Feature-Caps values is read. Other proxies may omit the `*` at the beginning of a
    /// Feature-Caps value, and may write a list of services in the quotes.
    static func names(announcedIn rows: [ByteString]) -> [ByteString] {
        var found: [ByteString] = []
        for row in rows {
            for capability in row.split(at: [UInt8(ascii: ";"), UInt8(ascii: ",")]) {
                guard let equals = capability.firstIndex(of: UInt8(ascii: "=")),
                    capability[0..<equals].trimmed().equalsIgnoringCase("+sip.pns")
                else { continue }
                let value = capability[equals + 1..<capability.count].trimmed().unquoted()
                found += value.split(at: [UInt8(ascii: ",")]).map { $0.trimmed() }
            }
        }
        return found
    }

    /// Whether one of the names is the given provider or an alias, in upper or lower case.
    static func names(_ names: [ByteString], include provider: ByteString) -> Bool {
        names.contains { name in
            if let known = PushProvider(name) { return known == PushProvider(provider) }
            return name.equalsIgnoringCase(provider)
        }
    }
}
