package import Bytes

/// Functions that compress the bytes of a request against the bytes of a similar request.
package struct RequestPacking {
    /// Compresses bytes against a sample; returns `nil` if the result would exceed `limit` bytes.
    package let pack: (_ bytes: ByteString, _ sample: ByteString, _ limit: Int) -> ByteString?
    /// Restores `count` bytes that were packed with the same sample; `nil` for damaged bytes.
    package let unpack: (_ packed: ByteString, _ sample: ByteString, _ count: Int) -> ByteString?

    package init(
        pack: @escaping (_ bytes: ByteString, _ sample: ByteString, _ limit: Int) -> ByteString?,
        unpack: @escaping (_ packed: ByteString, _ sample: ByteString, _ count: Int) -> ByteString?
    ) {
        self.pack = pack
        self.unpack = unpack
    }
}
