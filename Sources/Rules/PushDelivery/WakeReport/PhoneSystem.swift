/// The operating system of a phone, read from the User-Agent of its REGISTERs.
///
/// The raw values are the names in the store and in reports.
package enum PhoneSystem: String, Hashable, Sendable, CaseIterable {
    case iOS
    case android = "Android"
    case other

    /// Reads the operating system in a User-Agent; the first word that names a system decides, because a later word may
    /// be the phone's name.
    ///
    /// `iPhone`, `iPad`, `iPod` and `Android` count inside other words, in upper and lower case, as in
    /// `LinphoneAndroid`. The spelling `iOS` counts inside other words, as in `LinphoneiOS`; `ios` counts only as a
    /// separate word. `IOS` does not count, because it is Cisco's system for routers.
    package init(userAgent: Span<UInt8>) {
        self = .other
        for index in userAgent.indices {
            switch userAgent[index] | 0x20 {
            case UInt8(ascii: "a") where userAgent.continues(with: Rest.ndroid, after: index):
                self = .android
                return
            case UInt8(ascii: "i") where userAgent.namesApple(at: index):
                self = .iOS
                return
            default: break
            }
        }
    }
}

extension Span<UInt8> {
    /// Whether the bytes after the index are the lower-case text, in upper or lower case.
    fileprivate func continues(with text: [UInt8], after index: Int) -> Bool {
        guard count - index > text.count else { return false }
        for (place, letter) in text.enumerated() where self[index + 1 + place] | 0x20 != letter { return false }
        return true
    }

    /// Whether a word for Apple's phones and tablets begins at the letter `i` or `I` at the index.
    fileprivate func namesApple(at index: Int) -> Bool {
        if continues(with: Rest.phone, after: index) || continues(with: Rest.pad, after: index)
            || continues(with: Rest.pod, after: index)
        {
            return true
        }
        guard continues(with: Rest.os, after: index), self[index] == UInt8(ascii: "i") else { return false }
        let isUpper = self[index + 1] == UInt8(ascii: "O") && self[index + 2] == UInt8(ascii: "S")
        return isUpper || !isLetter(index - 1) && !isLetter(index + 3)
    }

    private func isLetter(_ index: Int) -> Bool {
        indices.contains(index) && (self[index] | 0x20) &- UInt8(ascii: "a") < 26
    }
}

/// The words in a User-Agent that name a system, without their first letters.
private enum Rest {
    static let ndroid = Array("ndroid".utf8)
    static let phone = Array("phone".utf8)
    static let pad = Array("pad".utf8)
    static let pod = Array("pod".utf8)
    static let os = Array("os".utf8)
}
