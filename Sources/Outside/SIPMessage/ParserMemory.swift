import COsip2
import Bytes
import SIPGrammar

/// The storage of one message while it is parsed: the message's bytes, its header fields, then libosip2's allocations.
///
/// The ``ParserMemory`` exists only during `read`, while libosip2 allocates from it on the current thread.
@safe
struct ParserMemory {
    let storage: ByteStorage
    /// The number of bytes of the message, at the start of the storage.
    let count: Int
    /// The message's header fields, after its bytes in the storage.
    let fields: HeaderFields
    private let base: UnsafeMutablePointer<UInt8>

    private static let started: Void = cosip_start()

    /// Copies the bytes and the positions of their header fields into new storage. The argument `spare` is the number
    /// of bytes for libosip2. The function `body` reads the values of the message in the new storage.
    ///
    /// The second part of the result is the number of bytes that libosip2 lacked. If libosip2 lacked bytes, the result
    /// of `body` is invalid, and the message must be read again with more memory.
    static func read<Result>(
        _ bytes: Span<UInt8>, _ fields: FieldList, spare: Int, _ body: (ParserMemory) -> Result
    ) -> (result: Result, missing: Int) {
        _ = started
        let fieldsStart = (bytes.count + 4) & ~3
        let arenaStart = (fieldsStart + HeaderFields.room(for: fields.count) + 7) & ~7
        let memory = ParserMemory(ByteStorage.make(capacity: arenaStart + spare), bytes, fields, at: fieldsStart)
        unsafe cosip_arena_begin(memory.base + arenaStart, spare)
        let result = body(memory)
        return (result, cosip_arena_end())
    }

    private init(_ storage: ByteStorage, _ bytes: Span<UInt8>, _ fields: FieldList, at fieldsStart: Int) {
        self.storage = storage
        count = bytes.count
        self.fields = fields.store(in: storage, at: fieldsStart)
        unsafe base = storage.baseAddress
        storage.fill(from: bytes)
    }

    func slice(_ range: Range<Int>) -> ByteString {
        ByteString(storage: storage, start: range.lowerBound, count: range.count)
    }

    func withBytes<Result>(_ body: (Span<UInt8>) -> Result) -> Result {
        unsafe storage.withSpan(start: 0, count: count, body)
    }

    // MARK: Texts for the parser

    /// The changes to a text that let libosip2 read it correctly.
    struct Preparation {
        /// Whether another byte replaces `%`, because libosip2 would decode escapes and end the text at `%00`.
        var hidesEscapes = false
        /// Whether spaces replace tabs and folds, which libosip2 does not accept everywhere.
        var spacesBlanks = false

        var isNeeded: Bool { hidesEscapes || spacesBlanks }
    }

    /// The byte that replaces `%`. The reader refuses the byte 1 in messages, so the byte can replace `%`.
    private static let hiddenEscape: UInt8 = 1

    /// Calls `body` with the text in the range as a C string.
    ///
    /// An unchanged text is not copied; only the byte after it is set to zero during the call.
    func withText<Result>(
        _ range: Range<Int>, _ preparation: Preparation, _ body: (UnsafePointer<CChar>) -> Result?
    ) -> Result? {
        precondition(range.lowerBound >= 0 && range.upperBound <= count, "text outside the message")
        guard preparation.isNeeded else {
            // The byte after the text exists, because the storage is longer than the message.
            let kept = unsafe base[range.upperBound]
            unsafe base[range.upperBound] = 0
            defer { unsafe base[range.upperBound] = kept }
            return unsafe body(UnsafeRawPointer(base + range.lowerBound).assumingMemoryBound(to: CChar.self))
        }
        guard let place = unsafe cosip_arena_take(range.count + 1) else { return nil }
        let copy = unsafe UnsafeMutableBufferPointer(
            start: place.assumingMemoryBound(to: UInt8.self), count: range.count + 1)
        for (index, source) in range.enumerated() {
            switch unsafe base[source] {
            case UInt8(ascii: "%") where preparation.hidesEscapes: unsafe copy[index] = Self.hiddenEscape
            case let byte where byte.isLinearSpace: unsafe copy[index] = UInt8(ascii: " ")
            case let byte: unsafe copy[index] = byte
            }
        }
        unsafe copy[range.count] = 0
        return unsafe body(UnsafeRawPointer(place).assumingMemoryBound(to: CChar.self))
    }

    // MARK: Texts from the parser

    /// Converts a string of libosip2 to a slice of the message's storage; `nil` for a null pointer. If `hidesEscapes`
    /// is true, each byte that replaced a `%` becomes `%` again.
    func slice(_ text: UnsafePointer<CChar>?, hidesEscapes: Bool = false) -> ByteString? {
        guard let text = unsafe text else { return nil }
        let start = unsafe UnsafeRawPointer(text) - UnsafeRawPointer(base)
        // If the string is outside the storage, the storage was too small, and the message will be parsed again.
        guard start >= 0, start < storage.capacityInBytes else { return .empty }
        let count = unsafe cosip_length(text)
        if hidesEscapes {
            for index in start..<start + count where unsafe base[index] == Self.hiddenEscape {
                unsafe base[index] = UInt8(ascii: "%")
            }
        }
        return ByteString(storage: storage, start: start, count: count)
    }
}
