import ProxyCore
import PushDelivery
import Reactor
import Registration
import SIPGrammar
import Timekeeping

/// Finds the devices that have certain tokens, in steps, so that calls go on meanwhile; who comes during a search waits
/// for the next and shares it with the others.
///
/// - `@unchecked Sendable` because it lives on the shard's loop and is used there alone.
final class DeviceSearch: @unchecked Sendable {
    fileprivate struct Question {
        let token: ByteString
        let providers: Set<PushProvider>
        let word: [UInt8]
        let answer: (BindingID?) -> Void
        /// The device that registered last.
        var found: (device: BindingID, date: UnixTime)?
    }

    private let shard: ProxyShard
    private var waiting: [Question] = []
    private var asked: [Question] = []
    private var cursor = BindingCursor()

    /// Questions that are answered by one search, and that wait for the next.
    private static let batch = 16
    private static let limit = 256
    /// About a millisecond.
    private static let step = 2000
    /// What is looked for first: shorter words would be found everywhere.
    private static let wordLengths = 8...32

    init(_ shard: ProxyShard) { self.shard = shard }

    /// Looks for the device whose token it is, that which registered last.
    ///
    /// - Parameters:
    ///   - token: as the app has it.
    ///   - providers: that it may be one of.
    ///   - answer: called once, on the loop, with the device if there is one.
    /// - Returns: false when too many wait; then nothing is called.
    func find(
        _ token: ByteString, of providers: Set<PushProvider>, _ answer: @escaping (BindingID?) -> Void
    ) -> Bool {
        guard waiting.count < Self.limit else { return false }
        guard let word = Self.word(in: token), !providers.isEmpty else {
            answer(nil)
            return true
        }
        waiting.append(Question(token: token, providers: providers, word: word, answer: answer))
        if asked.isEmpty { begin() }
        return true
    }

    private func begin() {
        guard !waiting.isEmpty else { return }
        asked = Array(waiting.prefix(Self.batch))
        waiting.removeFirst(asked.count)
        cursor = BindingCursor()
        continueLater()
    }

    private func continueLater() { shard.loop.post { self.search() } }

    private func search() {
        let words = asked.map(\.word)
        let start = cursor
        let (found, hasMore, end) = shard.assumeIsolated { shard in
            shard.withEngine { engine, _ in
                var cursor = start
                let (found, hasMore) = engine.devices(with: words, from: &cursor, limit: Self.step)
                return (found, hasMore, cursor)
            }
        }
        cursor = end
        for holder in found {
            for index in asked.indices where asked[index].isMeant(holder.token) {
                if let known = asked[index].found, known.date > holder.registeredAt { continue }
                asked[index].found = (holder.device, holder.registeredAt)
            }
        }
        if hasMore { return continueLater() }
        let answered = asked
        asked = []
        for question in answered { question.answer(question.found?.device) }
        if asked.isEmpty { begin() }
    }

    /// The last of the longest parts that a URI holds as they are.
    private static func word(in token: ByteString) -> [UInt8]? {
        let parts = token.array.split { byte in
            switch byte {
            case UInt8(ascii: "0")...UInt8(ascii: "9"), UInt8(ascii: "A")...UInt8(ascii: "Z"),
                UInt8(ascii: "a")...UInt8(ascii: "z"), UInt8(ascii: "-"), UInt8(ascii: "_"):
                false
            default: true
            }
        }
        guard let longest = parts.max(by: { $0.count < $1.count }), longest.count >= wordLengths.lowerBound else {
            return nil
        }
        return Array(longest.suffix(wordLengths.upperBound))
    }
}

extension DeviceSearch.Question {
    fileprivate func isMeant(_ other: PushToken) -> Bool {
        guard providers.contains(other.provider) else { return false }
        if other.prid == token { return true }
        let isApple = other.provider == .apns || other.provider == .apnsDevelopment
        return isApple && other.appleTokens.contains(token.lowercased())
    }
}
