package import Bytes
package import PushDelivery

/// The Feature-Caps values of RFC 8599: the push services that a proxy supports (RFC 6809 for the syntax).
package enum FeatureCaps {
    /// The value of one Feature-Caps row: `*;+sip.pns="fcm"`, with `+sip.pnsreg` if seconds are given (rule P5), and
    /// with the key in `+sip.vapid` for web push.
    package static func value(
        for provider: PushProvider, refresh: UInt32? = nil, vapidKey: String? = nil
    ) -> ByteString {
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

    /// The names of the push services that proxies nearer to the device announced in this REGISTER (rule P1).
    ///
    /// Reads every `+sip.pns="..."` of the rows. The leading `*` may be missing, and a quoted value may be a list.
    package static func names(announcedIn rows: [ByteString]) -> [ByteString] {
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

    /// Whether one of the names is that service, including aliases and other cases.
    static func names(_ names: [ByteString], include provider: ByteString) -> Bool {
        names.contains { name in
            if let known = PushProvider(name) { return known == PushProvider(provider) }
            return name.equalsIgnoringCase(provider)
        }
    }
}
