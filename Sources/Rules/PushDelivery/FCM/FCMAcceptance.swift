import Bytes

/// Decides whether an FCM push token is for one of the Firebase projects in the settings.
struct FCMAcceptance: TokenAcceptance {
    /// The known values of `pn-param` that select a Firebase project in the settings.
    private var names = Set<ByteString>()
    /// Whether ``names`` has all allowed values of `pn-param`. This is so if the settings list values in `params` or
    /// have several projects.
    private var isComplete: Bool
    private var hasSeveral: Bool

    init(_ settings: FCMSettings) {
        let apps = settings.enabledApps
        for app in apps { names.formUnion(app.allParams.map { ByteString($0) }) }
        hasSeveral = apps.count > 1
        isComplete = hasSeveral || !settings.params.isEmpty
    }

    func problem(with token: PushToken) -> TokenProblem? {
        guard token.prid.isGoogleToken else { return .googleToken }
        let param = token.param
        guard !param.isEmpty else { return hasSeveral ? .googleParamMissing : nil }
        if names.contains(param) { return nil }
        if isComplete { return .googleProject }
        // The settings of a single project need not list all values of `pn-param`. Therefore an unknown value is
        // refused only if it looks like a project id.
        return !names.isEmpty && param.isGoogleProjectID ? .googleProject : nil
    }
}

extension ByteString {
    /// Whether the text has the form of FCM's registration tokens: letters, digits, `:`, `_` and `-`. The topics and
    /// conditions that FCM's legacy interface accepts instead of a token have other forms.
    var isGoogleToken: Bool {
        !isEmpty
            && withSpan { span in
                // The code compares sixteen bytes at a time for speed, because every push checks its token.
                let other = span.firstPlace(in: 0..<span.count) { block in
                    let letters = (block | SIMD16(repeating: 0x20)) &- SIMD16(repeating: UInt8(ascii: "a"))
                    // One comparison accepts digits and the colon, which follows the digits in ASCII.
                    let digits = block &- SIMD16(repeating: UInt8(ascii: "0"))
                    return (letters .> SIMD16(repeating: 25)) .& (digits .> SIMD16(repeating: 10))
                        .& (block .!= SIMD16(repeating: UInt8(ascii: "_")))
                        .& (block .!= SIMD16(repeating: UInt8(ascii: "-")))
                }
                return other == span.count
            }
    }

    /// Whether the text looks like a Firebase project id: 6 to 30 lower-case letters, digits and hyphens, with a letter
    /// first.
    fileprivate var isGoogleProjectID: Bool {
        guard (6...30).contains(count), self[0].isASCIILetter else { return false }
        return allSatisfy { byte in
            byte == UInt8(ascii: "-") || byte.isASCIIDigit || byte.isASCIILetter && byte == byte.asciiLowercased
        }
    }
}
