import Bytes
import Collections
import ProxyCore
import PushDelivery
import Reactor
import Registration
import Timekeeping

/// Finds the devices that have certain tokens, in steps, so that calls go on meanwhile; who comes during a search waits
/// for the next and shares it with the others.
///
/// - `@unchecked Sendable` because it lives on the shard's loop and is used there alone.
final class DeviceSearch: @unchecked Sendable {
    typealias FoundDevice = ProxyEngine.FoundDevice

    private struct Question {
        let providers: Set<PushProvider>
        let word: [UInt8]
        let isMeant: (PushToken) -> Bool
        let answer: (FoundDevice?) -> Void
        var found: FoundDevice?
    }

    private let shard: ProxyShard
    private var waiting = Queue<Question>()
    private var asked: [Question] = []
    private var cursor = BindingCursor()

    /// Questions that are answered by one search, and that wait for the next.
    private static let batch = 16
    private static let limit = 256
    /// Tokens to read before calls have their turn again, see ``BindingTable/forEachDevice(of:with:from:limit:_:)``.
    private static let step = 200
    /// What is looked for first: shorter words would be found everywhere.
    private static let wordLengths = 4...32

    init(_ shard: ProxyShard) { self.shard = shard }

    /// Looks for the device that has a token; of several, for that which registered last.
    ///
    /// - Parameters:
    ///   - token: as it stands in `pn-prid`, alone or beside others.
    ///   - providers: that it may be one of.
    ///   - isMeant: whether it is one of these that a device has.
    ///   - answer: called once, on the loop, with the device if there is one.
    /// - Returns: false when too many wait; then nothing is called.
    func find(
        _ token: ByteString, of providers: Set<PushProvider>, where isMeant: @escaping (PushToken) -> Bool,
        _ answer: @escaping (FoundDevice?) -> Void
    ) -> Bool {
        guard waiting.count < Self.limit else { return false }
        guard let word = Self.word(in: token), !providers.isEmpty else {
            answer(nil)
            return true
        }
        waiting.append(Question(providers: providers, word: word, isMeant: isMeant, answer: answer))
        if asked.isEmpty { begin() }
        return true
    }

    private func begin() {
        while asked.count < Self.batch, let question = waiting.popFirst() { asked.append(question) }
        guard !asked.isEmpty else { return }
        cursor = BindingCursor()
        continueLater()
    }

    private func continueLater() { shard.loop.post { self.search() } }

    private func search() {
        let providers = asked.reduce(into: Set<PushProvider>()) { $0.formUnion($1.providers) }
        let words = asked.map(\.word)
        let cursor = cursor
        let step = shard.assumeIsolated { shard in
            shard.withEngine { engine, _ in
                engine.devices(of: providers, with: words, from: cursor, limit: Self.step)
            }
        }
        for device in step.found {
            for index in asked.indices where asked[index].providers.contains(device.token.provider) {
                guard asked[index].isMeant(device.token) else { continue }
                if let known = asked[index].found, known.registeredAt > device.registeredAt { continue }
                asked[index].found = device
            }
        }
        if let next = step.next {
            self.cursor = next
            return continueLater()
        }
        let answered = asked
        asked = []
        for question in answered { question.answer(question.found) }
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
