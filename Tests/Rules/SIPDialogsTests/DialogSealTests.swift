import Addressing
import Bytes
import Registration
import TestSupport
import Testing

@testable import SIPDialogs

@Suite("Names and tokens under the seal")
struct DialogSealTests {
    private let seal = DialogSeal.forTests
    private let device = DeviceID(rawValue: 1 << 61 | 0x1234)

    private func text(_ name: SealedName) -> ByteString {
        let sealed = seal.seal(name)
        return ByteString(sealed.indices.map { sealed[$0] })
    }

    private func block(_ high: UInt64, _ low: UInt64) -> ByteString {
        let sealed = seal.sealBlock(high, low)
        return ByteString(sealed.indices.map { sealed[$0] })
    }

    @Test func `a temporary GRUU gives back its device and its part of the Call-ID, in whichever answer it was`() throws
    {
        let texts = (1...3).map { text(.temporaryGRUU(device, callID: 0xab_cdef_01, answer: $0)) }
        #expect(Set(texts).count == 3)
        for text in texts {
            let opened = try #require(seal.openTemporaryGRUU(text))
            #expect(opened.device == device && opened.callID == 0xab_cdef_01 & DialogSeal.callIDMask)
        }
    }

    @Test func `a pn-purr gives back its device, in whichever answer it was`() {
        let texts = [1, 2, UInt32.max].map { text(.purr(device, answer: $0)) }
        #expect(Set(texts).count == 3)
        for text in texts { #expect(seal.openPURR(text) == device) }
    }

    @Test func `neither is taken for the other`() {
        #expect(seal.openPURR(text(.temporaryGRUU(device, callID: 7, answer: 1))) == nil)
        #expect(seal.openTemporaryGRUU(text(.purr(device, answer: 1))) == nil)
    }

    @Test func `a name that was changed in one place, cut or lengthened names no device`() {
        for name in [SealedName.temporaryGRUU(device, callID: 7, answer: 1), .purr(device, answer: 1)] {
            let bytes = text(name).array
            for index in bytes.indices {
                var changed = bytes
                changed[index] = changed[index] == UInt8(ascii: "A") ? UInt8(ascii: "B") : UInt8(ascii: "A")
                // The test skips the last letter, because this letter has unused bits, so that another letter may
                // decode to the same byte.
                guard index < bytes.count - 1 else { continue }
                #expect(seal.openTemporaryGRUU(ByteString(changed)) == nil && seal.openPURR(ByteString(changed)) == nil)
            }
            for text in [ByteString(bytes.dropLast()), ByteString(bytes + [65]), .empty] {
                #expect(seal.openTemporaryGRUU(text) == nil && seal.openPURR(text) == nil)
            }
        }
    }

    @Test func `a GRUU of a version that did not count answers is still read`() throws {
        let opened = try #require(seal.openTemporaryGRUU(block(device.rawValue, 0x12_3456_78 << 32 | 0x6772_7575)))
        #expect(opened.device == device && opened.callID == 0x12_3456_78 & DialogSeal.callIDMask)
        #expect(seal.openTemporaryGRUU(block(device.rawValue, 0x12_3456_78 << 32 | 0x6772_7576)) == nil)
    }

    @Test func `a token opens with the Call-ID and the tag that it was sealed with, and no other`() throws {
        let (callID, tag) = (ByteString("c1@host"), ByteString("t1"))
        let text = ByteString(seal.seal([1, 2, 3], callID, tag))
        let opened = try #require(seal.open(text, callID, tag))
        #expect(opened.plain == [1, 2, 3])
        #expect(seal.open(text, ByteString("c2@host"), tag) == nil)
        #expect(seal.open(text, callID, ByteString("t2")) == nil)
        #expect(seal.open(text, callID, .empty) == nil)
        #expect(seal.open(ByteString("x"), callID, tag) == nil)
    }
}
