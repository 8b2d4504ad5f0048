package import Bytes

/// The random secret key with which the Via branches of this process are made.
package struct BranchKey: Sendable {
    fileprivate let first, second: UInt64

    package init(_ first: UInt64, _ second: UInt64) {
        self.first = first
        self.second = second
    }

    /// A hash of two integers, which nobody can compute without the key.
    package func hash(_ word0: UInt64, _ word1: UInt64) -> UInt64 {
        var hash = KeyedHash(self)
        hash.mix(word0)
        hash.mix(word1)
        return hash.value
    }

    /// Appends the branch for the Via of a client transaction's request. The branch contains `loopHash`, by which the
    /// daemon detects loops (RFC 5393 section 4.2.2).
    package func appendBranch(for id: ClientTransactionID, loopHash: UInt64, to out: inout ByteSink) {
        ViaBranch(id: id, loopHash: loopHash).append(to: &out, self)
    }

    /// The loop hash in a branch that this process made; `nil` for any other branch, including a forged one.
    package func loopHash(inBranch branch: ByteString) -> UInt64? { ViaBranch(branch, self)?.loopHash }
}

/// The branch in the daemon's own Via: the magic cookie, 40 bits of keyed hash, the transaction's id, and the loop
/// hash.
///
/// By the id in the branch, the daemon finds the transaction of a response without a table. Nobody can guess a branch,
/// because the hash in the branch needs the secret key. The numbers are written in digits and lower-case letters, five
/// bits each, because some peers change the case.
struct ViaBranch: Equatable, Sendable {
    let id: ClientTransactionID
    let loopHash: UInt64

    private static let cookie: StaticString = "z9hG4bK"
    private static let length = 7 + 8 + 13 + 13

    func append(to out: inout ByteSink, _ key: BranchKey) {
        var digits: [34 of UInt8] = .init(repeating: 0)
        Self.write(seal(key), at: 0..<8, of: &digits)
        Self.write(id.rawValue, at: 8..<21, of: &digits)
        Self.write(loopHash, at: 21..<34, of: &digits)
        out.append(Self.cookie)
        out.append(digits.span)
    }

    private func seal(_ key: BranchKey) -> UInt64 { key.hash(id.rawValue, loopHash) >> 24 }

    private static func write(_ number: UInt64, at places: Range<Int>, of digits: inout [34 of UInt8]) {
        var rest = number
        for place in places.reversed() {
            let value = UInt8(truncatingIfNeeded: rest) & 31
            digits[place] = value < 10 ? UInt8(ascii: "0") + value : UInt8(ascii: "a") + value - 10
            rest >>= 5
        }
    }

    private static func number(_ text: ByteString, at places: Range<Int>) -> UInt64? {
        text.withSpan { bytes in
            var number: UInt64 = 0
            for place in places {
                let digit = bytes[place] &- UInt8(ascii: "0")
                let letter = (bytes[place] | 0x20) &- UInt8(ascii: "a")
                guard digit < 10 || letter < 22, number >> 59 == 0 else { return nil }
                number = number << 5 | UInt64(digit < 10 ? digit : letter + 10)
            }
            return number
        }
    }
}

extension ViaBranch {
    /// Parses a Via branch; `nil` if the branch was not made with the given key.
    init?(_ text: ByteString, _ key: BranchKey) {
        guard text.count == Self.length, text[0..<7].equalsIgnoringCase("z9hg4bk"),
            let seal = Self.number(text, at: 7..<15), let id = Self.number(text, at: 15..<28),
            let loopHash = Self.number(text, at: 28..<41)
        else { return nil }
        self.init(id: ClientTransactionID(rawValue: id), loopHash: loopHash)
        guard seal == self.seal(key) else { return nil }
    }
}

/// The hash SipHash-2-4 over a sequence of words. SipHash is fast, and nobody can compute it without the key.
package struct KeyedHash {
    private var v0, v1, v2, v3: UInt64
    private var count: UInt64 = 0

    package init(_ key: BranchKey) {
        v0 = key.first ^ 0x736f_6d65_7073_6575
        v1 = key.second ^ 0x646f_7261_6e64_6f6d
        v2 = key.first ^ 0x6c79_6765_6e65_7261
        v3 = key.second ^ 0x7465_6462_7974_6573
    }

    package mutating func mix(_ word: UInt64) {
        count &+= 8
        add(word)
    }

    /// The hash of all words that were mixed in so far.
    package var value: UInt64 {
        var last = self
        last.add(count << 56)
        last.v2 ^= 0xff
        for _ in 0..<4 { last.round() }
        return last.v0 ^ last.v1 ^ last.v2 ^ last.v3
    }

    private mutating func add(_ word: UInt64) {
        v3 ^= word
        round()
        round()
        v0 ^= word
    }

    private mutating func round() {
        v0 &+= v1
        v1 = (v1 << 13 | v1 >> 51) ^ v0
        v0 = v0 << 32 | v0 >> 32
        v2 &+= v3
        v3 = (v3 << 16 | v3 >> 48) ^ v2
        v0 &+= v3
        v3 = (v3 << 21 | v3 >> 43) ^ v0
        v2 &+= v1
        v1 = (v1 << 17 | v1 >> 47) ^ v2
        v2 = v2 << 32 | v2 >> 32
    }
}
