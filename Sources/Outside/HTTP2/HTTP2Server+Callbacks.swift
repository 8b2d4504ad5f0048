import CNGHTTP2

func setServerCallbacks(_ callbacks: OpaquePointer?) {
    unsafe nghttp2_session_callbacks_set_on_header_callback(callbacks, fieldArrived)
    unsafe nghttp2_session_callbacks_set_on_data_chunk_recv_callback(callbacks, bodyArrived)
    unsafe nghttp2_session_callbacks_set_on_frame_recv_callback(callbacks, frameArrived)
    unsafe nghttp2_session_callbacks_set_on_stream_close_callback(callbacks, streamClosed)
}

private func owner(_ context: UnsafeMutableRawPointer?) -> HTTP2Server? {
    unsafe context.map { unsafe Unmanaged<HTTP2Server>.fromOpaque($0).takeUnretainedValue() }
}

// MARK: Requests

extension HTTP2Server {
    /// Stores a header field of the request.
    ///
    /// - Returns: whether the head is still within the limit.
    fileprivate func fieldArrived(_ name: String, _ value: String, on number: Int32) -> Bool {
        streams[number, default: Stream()].headCount += name.utf8.count + value.utf8.count + 32
        guard streams[number]?.headCount ?? 0 <= limits.head else { return false }
        if name.utf8.first == UInt8(ascii: ":") {
            streams[number]?.pseudo[name] = value
        } else {
            streams[number]?.fields.append((name, value))
        }
        return true
    }

    fileprivate func bodyArrived(_ bytes: UnsafeBufferPointer<UInt8>, on number: Int32) {
        guard let stream = streams[number], !stream.isBodyCut else { return }
        guard stream.body.count + bytes.count <= limits.body else {
            streams[number]?.isBodyCut = true
            return
        }
        unsafe streams[number]?.body.append(contentsOf: bytes)
    }
}

private func fieldArrived(
    _ session: OpaquePointer?, _ frame: UnsafePointer<nghttp2_frame>?, _ name: UnsafePointer<UInt8>?, _ nameLength: Int,
    _ value: UnsafePointer<UInt8>?, _ valueLength: Int, _ flags: UInt8, _ context: UnsafeMutableRawPointer?
) -> Int32 {
    guard let frame = unsafe frame else { return 0 }
    let nameText = unsafe String(decoding: UnsafeBufferPointer(start: name, count: nameLength), as: UTF8.self)
    let valueText = unsafe String(decoding: UnsafeBufferPointer(start: value, count: valueLength), as: UTF8.self)
    let isTaken = unsafe owner(context)?.fieldArrived(nameText, valueText, on: frame.pointee.hd.stream_id)
    // The returned error code ends only the stream, and not the connection.
    return isTaken == false ? NGHTTP2_ERR_TEMPORAL_CALLBACK_FAILURE.rawValue : 0
}

private func bodyArrived(
    _ session: OpaquePointer?, _ flags: UInt8, _ stream: Int32, _ data: UnsafePointer<UInt8>?, _ length: Int,
    _ context: UnsafeMutableRawPointer?
) -> Int32 {
    unsafe owner(context)?.bodyArrived(UnsafeBufferPointer(start: data, count: length), on: stream)
    return 0
}

private func frameArrived(
    _ session: OpaquePointer?, _ frame: UnsafePointer<nghttp2_frame>?, _ context: UnsafeMutableRawPointer?
) -> Int32 {
    guard let frame = unsafe frame else { return 0 }
    let type = unsafe UInt32(frame.pointee.hd.type)
    let isLast = unsafe UInt32(frame.pointee.hd.flags) & NGHTTP2_FLAG_END_STREAM.rawValue != 0
    if isLast, type == NGHTTP2_DATA.rawValue || type == NGHTTP2_HEADERS.rawValue {
        unsafe owner(context)?.ended(frame.pointee.hd.stream_id)
    }
    return 0
}

private func streamClosed(
    _ session: OpaquePointer?, _ stream: Int32, _ code: UInt32, _ context: UnsafeMutableRawPointer?
) -> Int32 {
    unsafe owner(context)?.streams[stream] = nil
    return 0
}

// MARK: Answers

extension HTTP2Server {
    fileprivate func takeBody(of number: Int32, into buffer: UnsafeMutableBufferPointer<UInt8>) -> (Int, UInt32) {
        guard let stream = streams[number] else { return (0, NGHTTP2_DATA_FLAG_EOF.rawValue) }
        let count = min(buffer.count, stream.answer.count - stream.sentCount)
        for index in 0..<count { unsafe buffer[index] = stream.answer[stream.sentCount + index] }
        streams[number]?.sentCount += count
        guard stream.sentCount + count == stream.answer.count else { return (count, 0) }
        guard !stream.trailers.isEmpty else { return (count, NGHTTP2_DATA_FLAG_EOF.rawValue) }
        submitTrailers(number, stream.trailers)
        return (count, NGHTTP2_DATA_FLAG_EOF.rawValue | NGHTTP2_DATA_FLAG_NO_END_STREAM.rawValue)
    }
}

func answerBodyWanted(
    _ session: OpaquePointer?, _ stream: Int32, _ buffer: UnsafeMutablePointer<UInt8>?, _ length: Int,
    _ flags: UnsafeMutablePointer<UInt32>?, _ source: UnsafeMutablePointer<nghttp2_data_source>?,
    _ context: UnsafeMutableRawPointer?
) -> Int {
    let taken = unsafe owner(context)?.takeBody(
        of: stream, into: UnsafeMutableBufferPointer(start: buffer, count: length))
    unsafe flags?.pointee |= taken?.1 ?? NGHTTP2_DATA_FLAG_EOF.rawValue
    return taken?.0 ?? 0
}
