import Bytes
import Collections
import ProxyCore
import ProxyRuntime
import PushDelivery
import Reactor
import Registration
import Routing
import Timekeeping

/// Finds the device that has a certain token. A search goes through all devices in steps, and between the steps the
/// loop serves calls. Searches that are requested during a search wait for the next search, which serves all of them.
///
/// - The type is `@unchecked Sendable`, because it is used only on the shard's loop.
final class DeviceSearch: @unchecked Sendable {
    typealias FoundDevice = ProxyEngine.FoundDevice

    /// The error if the limit of waiting questions is reached.
    struct Overload: Error {}

    private struct Question {
        let providers: Set<PushProvider>
        /// A part of the wanted token. The engine first searches contacts for this text.
        let word: [UInt8]
        /// Whether a found token that contains the word is the wanted token.
        let isMeant: (PushToken) -> Bool
        let asker: CheckedContinuation<FoundDevice?, Never>
        var found: FoundDevice?
    }

    private let door: ShardDoor
    private let loop: EventLoop
    private var waiting = Queue<Question>()
    /// The questions that the current search answers.
    private var asked: [Question] = []

    /// The maximum number of questions that one search answers.
    private static let batch = 16
    /// The maximum number of questions that wait.
    private static let limit = 256
    /// The number of tokens that one step reads. Between two steps the loop handles calls (see
    /// ``BindingTable/forEachDevice(of:with:from:limit:_:)``).
    private static let step = 200
    /// The possible lengths of the word for which contacts are searched first. Shorter words would match in most
    /// contacts.
    private static let wordLengths = 4...32

    init(_ door: ShardDoor, on loop: EventLoop) {
        self.door = door
        self.loop = loop
    }

    /// Finds the device that has a token. If several devices have the token, the device that registered last is
    /// returned.
    ///
    /// - Parameters:
    ///   - token: a token in the form of `pn-prid`, alone or with other tokens.
    ///   - providers: the providers whose tokens are searched.
    ///   - isMeant: whether a found token is the requested token.
    /// - Returns: the device; `nil` if no device has the token.
    /// - Throws: if too many questions wait.
    func find(
        _ token: ByteString, of providers: Set<PushProvider>, where isMeant: @escaping (PushToken) -> Bool
    ) async throws(Overload) -> FoundDevice? {
        guard waiting.count < Self.limit else { throw Overload() }
        guard let word = Self.word(in: token), !providers.isEmpty else { return nil }
        return await withCheckedContinuation { asker in
            waiting.append(Question(providers: providers, word: word, isMeant: isMeant, asker: asker))
            if asked.isEmpty { begin() }
        }
    }

    private func begin() {
        while asked.count < Self.batch, let question = waiting.popFirst() { asked.append(question) }
        guard !asked.isEmpty else { return }
        loop.startTask { _ in await self.search() }
    }

    private func search() async {
        var cursor: BindingCursor? = BindingCursor()
        while let start = cursor {
            cursor = await search(from: start)
            // The loop handles calls before the next step.
            await Task.yield()
        }
        let answered = asked
        asked = []
        for question in answered { question.asker.resume(returning: question.found) }
        begin()
    }

    /// Does one step of the search. Returns the position at which the next step starts; `nil` after the last step.
    private func search(from cursor: BindingCursor) async -> BindingCursor? {
        let providers = asked.reduce(into: Set<PushProvider>()) { $0.formUnion($1.providers) }
        let words = asked.map(\.word)
        let step = await door.ask(.everything) { engine, _ in
            engine.devices(of: providers, with: words, from: cursor, limit: Self.step)
        }
        for device in step.found {
            for index in asked.indices where asked[index].providers.contains(device.token.provider) {
                guard asked[index].isMeant(device.token) else { continue }
                if let known = asked[index].found, known.registeredAt > device.registeredAt { continue }
                asked[index].found = device
            }
        }
        return step.next
    }

    /// The word to search for: the end of the token's longest part that needs no escapes in a URI. Returns `nil` if the
    /// part without escapes is too short.
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
