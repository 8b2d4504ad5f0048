import Bytes
import Crypto
import ProxyRuntime

/// The secret at the end of a link: 32 random bytes as URL-safe base64. Anybody who has the token can get the account
/// once.
struct ProvisionToken {
    let text: String

    private static let length = 43

    static func make() throws(StartError) -> ProvisionToken {
        do throws(CryptoError) {
            return ProvisionToken(made: String(decoding: Base64.url.encode(try RandomBytes.make(32)), as: UTF8.self))
        } catch {
            throw StartError("cannot get random bytes: \(error)")
        }
    }

    private init(made text: String) { self.text = text }

    /// - Returns: the token; `nil` if the text does not have the form of a token.
    init?(_ text: String) {
        guard text.utf8.count == Self.length,
            text.utf8.allSatisfy({
                $0.isASCIIDigit || $0.isASCIILetter || $0 == UInt8(ascii: "-") || $0 == UInt8(ascii: "_")
            })
        else { return nil }
        self.text = text
    }

    /// The daemon compares hashes only, so the duration of a look-up does not reveal tokens of links.
    var hash: [UInt8] { HashAlgorithm.sha256.digest(of: Array(text.utf8)) }

    /// Makes a password of 24 letters and digits, which needs no escape in any form of an account.
    static func makePassword() throws(StartError) -> String {
        let random: [UInt8]
        do throws(CryptoError) {
            random = try RandomBytes.make(96)
        } catch {
            throw StartError("cannot get random bytes: \(error)")
        }
        // Only two of the 64 characters of base64 are neither letters nor digits.
        let text = Base64.url.encode(random).filter { $0.isASCIIDigit || $0.isASCIILetter }
        guard text.count >= 24 else { throw StartError("cannot make a password") }
        return String(decoding: text.prefix(24), as: UTF8.self)
    }
}
