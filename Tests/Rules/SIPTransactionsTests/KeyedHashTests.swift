import Bytes
import SIPTransactions
import Testing

@Suite("Keyed hash and branch")
struct KeyedHashTests {
    /// Tests the vectors of the reference implementation of SipHash-2-4. In these vectors, the key consists of the
    /// bytes 0 to 15, and the text of the bytes 0, 1, 2 and so on.
    @Test func `words have the hashes of the published vectors`() {
        let key = BranchKey(0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908)
        var hash = KeyedHash(key)
        hash.mix(0x0706_0504_0302_0100)
        #expect(hash.value == 0x93f5_f579_9a93_2462)
        hash.mix(0x0f0e_0d0c_0b0a_0908)
        #expect(hash.value == 0x3f2a_cc7f_57c2_9bdb)
        #expect(key.hash(0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908) == 0x3f2a_cc7f_57c2_9bdb)
    }

    @Test func `a branch is recognized in either case, and not with any other character`() {
        let key = BranchKey(1, 2)
        let id = ClientTransactionID(rawValue: 0x8123_4567_89ab_cdef)
        let branch = ByteString(
            [UInt8](capacity: 64) { key.appendBranch(for: id, loopHash: 0xfedc_ba98_7654_3210, to: &$0) })
        #expect(key.loopHash(inBranch: branch) == 0xfedc_ba98_7654_3210)
        #expect(key.loopHash(inBranch: ByteString(branch.string.uppercased())) == 0xfedc_ba98_7654_3210)
        #expect(BranchKey(1, 3).loopHash(inBranch: branch) == nil)
        for place in 0..<branch.count {
            for byte in UInt8.min...UInt8.max {
                var bytes = branch.array
                let isSame = bytes[place] == byte || bytes[place] ^ 0x20 == byte && byte >= UInt8(ascii: "A")
                bytes[place] = byte
                #expect((key.loopHash(inBranch: ByteString(bytes)) != nil) == isSame)
            }
        }
    }
}
