package import Bytes

/// The push tokens of an Acrobits app, read from `pn-param` and `pn-prid`. Acrobits' push server assigns the push
/// tokens to the app.
///
/// The form of an Acrobits contact is `pn-prid = <token>[:calls|:other][&<token>:calls|:other]`, `pn-param =
/// <AppId>[&<AppId for other>][:<Selector>]`. Tokens of Acrobits' push server are base64 text, which the daemon passes
/// on unchanged. The selector in an Acrobits token can contain colons.
package struct AcrobitsToken: Hashable, Sendable {
    /// The address of one installation of an app at Acrobits' push server.
    package struct Address: Hashable, Sendable {
        package let appID: ByteString
        package let deviceToken: ByteString
    }

    /// Why `pn-param` and `pn-prid` contain no usable token of Acrobits.
    package enum Problem: Error, Hashable, Sendable {
        case missingApp, tooManyApps
        case emptyToken, tooManyTokens, unknownUse, repeatedUse, missingUse
    }

    /// The address at Acrobits' push server for calls. Since iOS 13, apps have a separate token for calls, and the
    /// phone must ring at each push to the call token.
    package let calls: Address?
    /// The address at Acrobits' push server for all pushes except calls.
    package let other: Address?
    /// The name of the user's account in the app; Acrobits' push server calls this name the selector.
    package let selector: ByteString?

    /// Parses the push parameters of an Acrobits contact, after percent-decoding.
    package init(_ token: PushToken) throws(Problem) {
        let param = token.param
        let colon = param.firstIndex(of: UInt8(ascii: ":"))
        let apps = param[0..<(colon ?? param.count)].parts(separatedBy: UInt8(ascii: "&"))
        guard apps.allSatisfy({ !$0.isEmpty }) else { throw .missingApp }
        guard let callsApp = apps.first, let otherApp = apps.last, apps.count <= 2 else { throw .tooManyApps }
        let selector = colon.map { param[$0 + 1..<param.count] } ?? .empty
        self.selector = selector.isEmpty ? nil : selector

        let entries = try Self.entries(token.prid)
        var calls: ByteString?
        var other: ByteString?
        for entry in entries {
            switch entry.use {
            case .calls where calls == nil: calls = entry.token
            case .other where other == nil: other = entry.token
            case .calls, .other: throw .repeatedUse
            case nil:
                guard entries.count == 1 else { throw .missingUse }
                calls = entry.token
                other = entry.token
            }
        }
        self.calls = calls.map { Address(appID: callsApp, deviceToken: $0) }
        self.other = other.map { Address(appID: otherApp, deviceToken: $0) }
    }

    // MARK: pn-prid

    private enum Use: String {
        case calls, other
    }

    private struct Entry {
        let token: ByteString
        let use: Use?
    }

    private static func entries(_ prid: ByteString) throws(Problem) -> [Entry] {
        let parts = prid.parts(separatedBy: UInt8(ascii: "&"))
        guard parts.count <= 2 else { throw .tooManyTokens }
        var entries: [Entry] = []
        for part in parts {
            var token = part
            var use: Use?
            if let colon = part.firstIndex(of: UInt8(ascii: ":")) {
                token = part[0..<colon]
                let name = part[colon + 1..<part.count].lowercased().string
                guard let word = Use(rawValue: name) else { throw .unknownUse }
                use = word
            }
            guard !token.isEmpty else { throw .emptyToken }
            entries.append(Entry(token: token, use: use))
        }
        return entries
    }
}

extension ByteString {
    /// Whether all bytes are characters of base64 or base64url, or padding.
    var isBase64Text: Bool {
        allSatisfy { $0.isASCIILetter || $0.isASCIIDigit || "+/-_=".utf8.contains($0) }
    }
}
