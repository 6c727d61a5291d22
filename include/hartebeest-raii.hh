/* SPDX-License-Identifier: MIT */
/*
 * hartebeest-raii.hh - hartebeest.h and hartebeest-mesh.h as C++ values that clean up, header
 * only, C++11
 *
 * A context and its objects are values that can be moved but not copied.  Each is
 * destroyed with its last owner, and keeps alive what it depends on, so a program may
 * drop them in any order.  get() returns the verbs object or, of a context, the handle
 * for all C functions that have no method here.  Names and keys are as in C.
 *
 * Failures are exceptions of class error: what() is the sentence of hartebeest_error(),
 * number() the positive errno, which code() holds, too.  A method that takes a deadline
 * returns true; with HARTEBEEST_ONCE it returns false after -EAGAIN: call again, since what it
 * looks for is not there yet, or its server does not answer (hartebeest_error()).
 * Destructors throw nothing: a failure in one is only logged.
 *
 * A value that was moved from may only be assigned to or destroyed.  Threads: as in C;
 * one value belongs to one thread at a time.
 */
#ifndef HARTEBEEST_RAII_HH
#define HARTEBEEST_RAII_HH

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include "hartebeest-mesh.h"
#include "hartebeest.h"

namespace hartebeest {

/* -------------------------------------------------------------- failures --- */

class error : public std::system_error {
public:
	error(int number, const std::string &text)
		: std::system_error(number, std::generic_category()), sentence(text) {}

	const char *what() const noexcept override { return sentence.what(); }
	int number() const noexcept { return code().value(); }

private:
	std::runtime_error sentence;	/* copying it does not throw */
};

/* For any function of hartebeest.h: returns its result, or throws. */
inline int check(int ret)
{
	if (ret < 0)
		throw error(-ret, hartebeest_error());
	return ret;
}

/* For calls that set no sentence, such as those of hartebeest-post.h. */
inline int check(int ret, const std::string &what)
{
	if (ret < 0)
		throw error(-ret, what + ": " + std::generic_category().message(-ret));
	return ret;
}

/* For a call with a deadline.  false: -EAGAIN, which only HARTEBEEST_ONCE causes. */
inline bool check_once(int ret)
{
	return ret != -EAGAIN && check(ret) >= 0;
}

/* --------------------------------------------------------------- owners --- */

namespace detail {

/* A context that its last owner closes. */
struct context_state {
	struct hartebeest_context *hb;
	bool is_borrowed;
	int level;
	std::function<void(int, const char *)> write;

	context_state(struct hartebeest_context *handle, bool borrowed)
		: hb(handle), is_borrowed(borrowed), level(0) {}
	context_state(const context_state &) = delete;
	context_state &operator=(const context_state &) = delete;

	~context_state()
	{
		if (!is_borrowed)
			hartebeest_close(hb);
		else if (write)
			hartebeest_log_set(hb, level, nullptr, nullptr);
	}
};

typedef std::vector<std::shared_ptr<const void>> parents;

/* An object, destroyed by its name before the parents that it depends on. */
struct object_state {
	struct hartebeest_context *hb;
	std::string name;
	int (*destroy)(struct hartebeest_context *hb, const char *name);
	detail::parents parents;
	std::function<int(struct ibv_qp *)> refill;

	object_state(struct hartebeest_context *handle, const std::string &called,
		     int (*end)(struct hartebeest_context *, const char *),
		     const detail::parents &below)
		: hb(handle), name(called), destroy(end), parents(below) {}
	object_state(const object_state &) = delete;
	object_state &operator=(const object_state &) = delete;

	~object_state() { destroy(hb, name.c_str()); }
};

} /* namespace detail */

/* The base of all named objects; Verbs is a struct ibv_*. */
template <class Verbs>
class object {
public:
	Verbs *get() const { return verbs; }
	Verbs *operator->() const { return verbs; }
	const std::string &name() const { return state->name; }

	/* Holding it keeps alive the object and what that depends on. */
	std::shared_ptr<const void> owner() const { return state; }
	struct hartebeest_context *context_handle() const { return state->hb; }

	object(object &&other) noexcept : verbs(other.verbs), state(std::move(other.state))
	{
		other.verbs = nullptr;
	}

	object &operator=(object &&other) noexcept
	{
		verbs = other.verbs;
		state = std::move(other.state);
		other.verbs = nullptr;
		return *this;
	}

protected:
	Verbs *verbs;
	std::shared_ptr<detail::object_state> state;

	object(Verbs *made, struct hartebeest_context *hb, const std::string &name,
	       int (*destroy)(struct hartebeest_context *, const char *),
	       const detail::parents &parents)
		: verbs(made),
		  state(std::make_shared<detail::object_state>(hb, name, destroy, parents)) {}

	const char *c_name() const { return state->name.c_str(); }
};

/* -------------------------------------------------------------- context --- */

class context {
public:
	/* @options: "section.key=value" strings, as for hartebeest_open() */
	explicit context(const std::vector<std::string> &options = std::vector<std::string>())
		: state(hold(opened(options))) {}

	/* On a device that the program has opened, and closes later; @port 0: choose one. */
	explicit context(struct ibv_context *verbs, int port = 0,
			 const std::vector<std::string> &options = std::vector<std::string>())
		: state(hold(opened(options, verbs, port))) {}

	/* A context that others close, such as hartebeest_default_context(). */
	static context borrow(struct hartebeest_context *hb)
	{
		return context(std::make_shared<detail::context_state>(hb, true));
	}

	context(context &&) = default;
	context &operator=(context &&) = default;

	struct hartebeest_context *get() const { return state->hb; }
	std::shared_ptr<const void> owner() const { return state; }

	int rank() const { return check(hartebeest_rank(get())); }
	int size() const { return check(hartebeest_size(get())); }
	int participant(int index) const { return check(hartebeest_participant(get(), index)); }
	int position(int rank) const { return check(hartebeest_position(get(), rank)); }
	int local_rank() const { return check(hartebeest_local_rank(get())); }
	std::string job() const { return hartebeest_job(get()); }
	std::string origin() const { return hartebeest_origin(get(), nullptr); }

	/* The device, which is opened if necessary. */
	struct ibv_context *verbs() const
	{
		struct ibv_context *device;

		check(hartebeest_verbs(get(), &device));
		return device;
	}

	int port_num() const { return check(hartebeest_port_num(get())); }

	std::string device_text() const
	{
		return written([this](char *text, size_t size) {
			return hartebeest_device_text(get(), text, size);
		});
	}

	std::string option(const std::string &name) const
	{
		return written([&](char *text, size_t size) {
			return hartebeest_option_get(get(), name.c_str(), text, size, nullptr);
		});
	}

	/* @write must not throw; if empty, lines go to stderr or a file again. */
	void log(int level, std::function<void(int, const char *)> write)
	{
		check(hartebeest_log_set(get(), level, write ? write_line : nullptr, state.get()));
		state->level = level;
		state->write = std::move(write);
	}

	std::string completion_text(const struct ibv_wc &wc) const
	{
		return written([&](char *text, size_t size) {
			return hartebeest_completion_text(get(), &wc, text, size);
		});
	}

	/* Ends current and later waits, until cancel_clear().  For any thread. */
	void cancel() const noexcept { hartebeest_cancel(get()); }
	void cancel_clear() const noexcept { hartebeest_cancel_clear(get()); }

	/* Notifies the processes that wait for this one that it has given up. */
	void fail(const std::string &text) const { check(hartebeest_fail(get(), text.c_str())); }

	/* ------------------------------------------------------- messages --- */

	bool push(const std::string &key, const std::string &text, int64_t deadline = 0) const
	{
		return check_once(hartebeest_msg_push(get(), key.c_str(), text.data(), text.size(),
						      deadline));
	}

	bool push(const std::string &key, const std::string &text,
		  const struct hartebeest_msg_attr &attr, int64_t deadline = 0) const
	{
		return check_once(hartebeest_msg_push_attr(get(), key.c_str(), text.data(),
							   text.size(), &attr, deadline));
	}

	/* Waits for a message of any length.  false: @text is unchanged. */
	bool wait(const std::string &peer_key, std::string &text, int64_t deadline = 0) const
	{
		struct hartebeest_message message;
		std::string room(4096, '\0');

		hartebeest_message_init(&message);
		message.peer_key = peer_key.c_str();
		do {
			room.resize(message.length > room.size() ? message.length : room.size());
			message.buffer = &room[0];
			message.room = room.size();
			message.arrived = 0;
			if (!check_once(hartebeest_msgs_wait(get(), &message, 1, 1, deadline)))
				return false;
		} while (message.result == -EMSGSIZE);
		check(message.result);
		text.assign(room, 0, message.length);
		return true;
	}

	bool erase(const std::string &key, int64_t deadline = 0) const
	{
		return check_once(hartebeest_msg_delete(get(), key.c_str(), deadline));
	}

	bool barrier(const std::string &name, int64_t deadline = 0) const
	{
		return check_once(hartebeest_barrier(get(), name.c_str(), deadline));
	}

	/* The sum; 0: not within one look. */
	uint64_t counter_add(const std::string &key, uint32_t add, int64_t deadline = 0) const
	{
		uint64_t value = 0;

		check_once(hartebeest_counter_add(get(), key.c_str(), add, &value, deadline));
		return value;
	}

	/* The values of all ranks, in their order.  false: not within one look. */
	template <typename value_type>
	bool gather(const std::string &name, const value_type &value,
		    std::vector<value_type> &all, int64_t deadline = 0) const
	{
		std::vector<value_type> found(static_cast<size_t>(size()));

		static_assert(std::is_trivial<value_type>::value, "bytes are sent");
		if (!check_once(hartebeest_gather(get(), name.c_str(), &value, sizeof(value),
						  found.data(), deadline)))
			return false;
		all = std::move(found);
		return true;
	}

	/* ---------------------------------------------------------- peers --- */

	bool fetch(const std::string &peer_key, struct hartebeest_remote_mr &mr,
		   int64_t deadline = 0) const
	{
		return check_once(hartebeest_mr_fetch(get(), peer_key.c_str(), &mr, deadline));
	}

	bool fetch(const std::string &peer_key, struct hartebeest_remote_qp &qp,
		   int64_t deadline = 0) const
	{
		return check_once(hartebeest_qp_fetch(get(), peer_key.c_str(), &qp, deadline));
	}

	std::string peer_text(const std::string &peer_key, int64_t deadline = 0) const
	{
		return written([&](char *text, size_t size) {
			return hartebeest_peer_text(get(), peer_key.c_str(), text, size, deadline);
		});
	}

	/* The regions that a fetched peer offers. */
	std::vector<struct hartebeest_remote_mr> peer_regions(const std::string &peer_key) const
	{
		std::vector<struct hartebeest_remote_mr> found(HARTEBEEST_PAIR_REGIONS);

		found.resize(static_cast<size_t>(check(hartebeest_peer_regions(
			get(), peer_key.c_str(), found.data(), found.size()))));
		return found;
	}

	/* Confirms the newest queue pair that is connected to this peer. */
	bool confirm(const std::string &peer_key, int64_t deadline = 0) const
	{
		return check_once(hartebeest_qp_confirm(get(), nullptr, peer_key.c_str(),
							deadline));
	}

	/* ------------------------------------------------------- services --- */

	bool listen(const std::string &service, int64_t deadline = 0) const
	{
		return check_once(hartebeest_service_listen(get(), service.c_str(), deadline));
	}

	bool accept(const std::string &service, struct hartebeest_client &client,
		    int64_t deadline = 0) const
	{
		return check_once(hartebeest_service_accept(get(), service.c_str(), &client,
							    deadline));
	}

	bool request(const std::string &service, const std::string &data,
		     struct hartebeest_client &client, int64_t deadline = 0) const
	{
		return check_once(hartebeest_service_request(get(), service.c_str(), data.data(),
							     data.size(), &client, deadline));
	}

	void leave(const std::string &service, const struct hartebeest_client &client) const
	{
		check(hartebeest_service_leave(get(), service.c_str(), &client));
	}

	void close_service(const std::string &service) const
	{
		check(hartebeest_service_close(get(), service.c_str()));
	}

private:
	std::shared_ptr<detail::context_state> state;

	explicit context(std::shared_ptr<detail::context_state> held) : state(std::move(held)) {}

	static std::shared_ptr<detail::context_state> hold(struct hartebeest_context *hb)
	{
		return std::make_shared<detail::context_state>(hb, false);
	}

	/* @write: works as snprintf(3); the text may be another one when asked for again. */
	template <class Write>
	static std::string written(const Write &write)
	{
		std::string text(512, '\0');
		size_t length = static_cast<size_t>(check(write(&text[0], text.size())));

		if (length >= text.size()) {
			text.resize(length + 1);
			length = static_cast<size_t>(check(write(&text[0], text.size())));
			length = std::min(length, text.size() - 1);
		}
		text.resize(length);
		return text;
	}

	static std::vector<const char *> listed(const std::vector<std::string> &options)
	{
		std::vector<const char *> list;

		for (const std::string &option : options)
			list.push_back(option.c_str());
		list.push_back(nullptr);
		return list;
	}

	static struct hartebeest_context *opened(const std::vector<std::string> &options)
	{
		struct hartebeest_context *hb;

		check(hartebeest_open(&hb, listed(options).data()));
		return hb;
	}

	static struct hartebeest_context *opened(const std::vector<std::string> &options,
						 struct ibv_context *verbs, int port)
	{
		struct hartebeest_context *hb;

		check(hartebeest_open_verbs(&hb, listed(options).data(), verbs, port));
		return hb;
	}

	/* A line may be logged while log() sets the first function, before it is stored here. */
	static void write_line(void *data, int level, const char *text)
	{
		const detail::context_state *to = static_cast<detail::context_state *>(data);

		if (to->write)
			to->write(level, text);
	}
};

/* -------------------------------------------------------------- objects --- */

class protection_domain : public object<struct ibv_pd> {
public:
	protection_domain(const context &context, const std::string &name)
		: object(made(context.get(), name), context.get(), name, hartebeest_pd_destroy,
			 { context.owner() }) {}

	/* Names the program's own object, which is never destroyed here. */
	static protection_domain adopt(const context &context, const std::string &name,
				       struct ibv_pd *pd)
	{
		check(hartebeest_pd_adopt(context.get(), name.c_str(), pd));
		return protection_domain(context, name, pd);
	}

private:
	protection_domain(const context &context, const std::string &name, struct ibv_pd *pd)
		: object(pd, context.get(), name, hartebeest_pd_destroy, { context.owner() }) {}

	static struct ibv_pd *made(struct hartebeest_context *hb, const std::string &name)
	{
		struct ibv_pd *pd;

		check(hartebeest_pd_create(hb, name.c_str(), &pd));
		return pd;
	}
};

class completion_queue : public object<struct ibv_cq> {
public:
	/* wait() and fd() need HARTEBEEST_CQ_CHANNEL in @flags.  @depth 0: of the option. */
	completion_queue(const context &context, const std::string &name, uint32_t depth = 0,
			 uint32_t flags = 0)
		: completion_queue(context, name, made(context.get(), name, depth, flags)) {}

	completion_queue(const context &context, const std::string &name,
			 const struct hartebeest_cq_attr &attr)
		: completion_queue(context, name, made(context.get(), name, attr)) {}

	static completion_queue adopt(const context &context, const std::string &name,
				      struct ibv_cq *cq)
	{
		check(hartebeest_cq_adopt(context.get(), name.c_str(), cq));
		return completion_queue(context, name, cq);
	}

	int fd() const { return check(hartebeest_cq_fd(context_handle(), c_name())); }

	/*
	 * Returns the number taken; with HARTEBEEST_ONCE 0 if the queue is empty, and now
	 * armed.
	 */
	int wait(struct ibv_wc *wc, int count, int64_t deadline = 0) const
	{
		const int ret = hartebeest_cq_wait(context_handle(), get(), count, wc, deadline);

		return ret == -EAGAIN ? 0 : check(ret);
	}

private:
	completion_queue(const context &context, const std::string &name, struct ibv_cq *cq)
		: object(cq, context.get(), name, hartebeest_cq_destroy, { context.owner() }) {}

	static struct ibv_cq *made(struct hartebeest_context *hb, const std::string &name,
				   uint32_t depth, uint32_t flags)
	{
		struct hartebeest_cq_attr attr;

		hartebeest_cq_attr_init(&attr);
		attr.depth = depth;
		attr.flags = flags;
		return made(hb, name, attr);
	}

	static struct ibv_cq *made(struct hartebeest_context *hb, const std::string &name,
				   const struct hartebeest_cq_attr &attr)
	{
		struct ibv_cq *cq;

		check(hartebeest_cq_create(hb, name.c_str(), &attr, &cq));
		return cq;
	}
};

class shared_receive_queue : public object<struct ibv_srq> {
public:
	/* @max_wr and @max_sge of 0 are taken from the options for receives of queue pairs. */
	shared_receive_queue(const protection_domain &pd, const std::string &name,
			     uint32_t max_wr = 0, uint32_t max_sge = 0)
		: object(made(pd, name, max_wr, max_sge), pd.context_handle(), name,
			 hartebeest_srq_destroy, { pd.owner() }) {}

	static shared_receive_queue adopt(const context &context, const std::string &name,
					  struct ibv_srq *srq)
	{
		check(hartebeest_srq_adopt(context.get(), name.c_str(), srq));
		return shared_receive_queue(context, name, srq);
	}

private:
	shared_receive_queue(const context &context, const std::string &name, struct ibv_srq *srq)
		: object(srq, context.get(), name, hartebeest_srq_destroy, { context.owner() }) {}

	static struct ibv_srq *made(const protection_domain &pd, const std::string &name,
				    uint32_t max_wr, uint32_t max_sge)
	{
		struct hartebeest_srq_attr attr;
		struct ibv_srq *srq;

		hartebeest_srq_attr_init(&attr);
		attr.pd = pd.name().c_str();
		attr.max_wr = max_wr;
		attr.max_sge = max_sge;
		check(hartebeest_srq_create(pd.context_handle(), name.c_str(), &attr, &srq));
		return srq;
	}
};

class memory_region : public object<struct ibv_mr> {
public:
	/* Registers a zeroed buffer that the library allocates. */
	memory_region(const protection_domain &pd, const std::string &name, size_t length,
		      int access)
		: object(made(pd, name, hartebeest_mr_create, nullptr, length, access),
			 pd.context_handle(), name, hartebeest_mr_destroy, { pd.owner() }) {}

	/* Registers the program's memory, which must outlive the region. */
	memory_region(const protection_domain &pd, const std::string &name, void *address,
		      size_t length, int access)
		: object(made(pd, name, hartebeest_mr_register, address, length, access),
			 pd.context_handle(), name, hartebeest_mr_destroy, { pd.owner() }) {}

	static memory_region adopt(const context &context, const std::string &name,
				   struct ibv_mr *mr, int access)
	{
		check(hartebeest_mr_adopt(context.get(), name.c_str(), mr, access));
		return memory_region(context, name, mr);
	}

	size_t size() const { return get()->length; }
	uint32_t lkey() const { return get()->lkey; }

	template <class Value = unsigned char>
	Value *data(size_t offset = 0) const
	{
		return reinterpret_cast<Value *>(static_cast<unsigned char *>(get()->addr) +
						 offset);
	}

	bool publish(const std::string &key, int64_t deadline = 0) const
	{
		return check_once(hartebeest_mr_publish(context_handle(), c_name(), key.c_str(),
							deadline));
	}

private:
	memory_region(const context &context, const std::string &name, struct ibv_mr *mr)
		: object(mr, context.get(), name, hartebeest_mr_destroy, { context.owner() }) {}

	static struct ibv_mr *made(const protection_domain &pd, const std::string &name,
				   decltype(hartebeest_mr_create) *make, void *address,
				   size_t length, int access)
	{
		struct hartebeest_mr_attr attr;
		struct ibv_mr *mr;

		hartebeest_mr_attr_init(&attr);
		attr.pd = pd.name().c_str();
		attr.address = address;
		attr.length = length;
		attr.access = access;
		check(make(pd.context_handle(), name.c_str(), &attr, &mr));
		return mr;
	}
};

class queue_pair : public object<struct ibv_qp> {
public:
	/* In RESET.  The default type and each size of 0 are taken from the options. */
	queue_pair(const protection_domain &pd, const std::string &name,
		   const completion_queue &send, const completion_queue &recv,
		   enum ibv_qp_type type = HARTEBEEST_QPT_DEFAULT,
		   const struct ibv_qp_cap &cap = ibv_qp_cap())
		: object(made(pd, name, send, recv, type, cap), pd.context_handle(), name,
			 hartebeest_qp_destroy, { pd.owner(), send.owner(), recv.owner() }) {}

	/* Takes its receives from @srq, which other queue pairs may share. */
	queue_pair(const protection_domain &pd, const std::string &name,
		   const completion_queue &send, const completion_queue &recv,
		   const shared_receive_queue &srq, enum ibv_qp_type type,
		   const struct ibv_qp_cap &cap = ibv_qp_cap())
		: object(made(pd, name, send, recv, srq, type, cap), pd.context_handle(), name,
			 hartebeest_qp_destroy,
			 { pd.owner(), send.owner(), recv.owner(), srq.owner() }) {}

	static queue_pair adopt(const context &context, const std::string &name,
				struct ibv_qp *qp)
	{
		check(hartebeest_qp_adopt(context.get(), name.c_str(), qp));
		return queue_pair(context, name, qp);
	}

	struct ibv_qp_cap cap() const
	{
		struct ibv_qp_cap granted;

		check(hartebeest_qp_cap(context_handle(), c_name(), &granted));
		return granted;
	}

	/*
	 * @post posts the receives in the state INIT, again whenever the queue pair had
	 * to go through RESET.  It returns 0, or a negative errno that fails the
	 * transition.  If it throws, the transition fails with -ECANCELED.
	 */
	void refill(std::function<int(struct ibv_qp *)> post)
	{
		state->refill = std::move(post);
		check(hartebeest_qp_refill_set(context_handle(), c_name(),
					       state->refill ? post_receives : nullptr,
					       state.get()));
	}

	void init() { check(hartebeest_qp_init(context_handle(), c_name())); }
	void reset() { check(hartebeest_qp_reset(context_handle(), c_name())); }

	bool publish(const std::string &key, int64_t deadline = 0)
	{
		return check_once(hartebeest_qp_publish(context_handle(), c_name(), key.c_str(),
							deadline));
	}

	bool connect(const std::string &peer_key, int64_t deadline = 0)
	{
		return check_once(hartebeest_qp_connect(context_handle(), c_name(),
							peer_key.c_str(), deadline));
	}

	bool confirm(const std::string &peer_key, int64_t deadline = 0)
	{
		return check_once(hartebeest_qp_confirm(context_handle(), c_name(),
							peer_key.c_str(), deadline));
	}

	bool reconnect(const std::string &peer_key, int64_t deadline = 0)
	{
		return check_once(hartebeest_qp_reconnect(context_handle(), c_name(),
							  peer_key.c_str(), deadline));
	}

	/* true: the peer was replaced, and this queue pair is connected to the new one. */
	bool follow(const std::string &peer_key, int64_t deadline = 0)
	{
		return check(hartebeest_qp_follow(context_handle(), c_name(), peer_key.c_str(),
						  nullptr, deadline)) == 1;
	}

	/* UD: where a message to this peer goes. */
	struct hartebeest_ud_address address(const std::string &peer_key) const
	{
		struct hartebeest_ud_address found;

		check(hartebeest_qp_ud_address(context_handle(), c_name(), peer_key.c_str(),
					       &found));
		return found;
	}

private:
	queue_pair(const context &context, const std::string &name, struct ibv_qp *qp)
		: object(qp, context.get(), name, hartebeest_qp_destroy, { context.owner() }) {}

	static struct ibv_qp *made(const protection_domain &pd, const std::string &name,
				   const completion_queue &send, const completion_queue &recv,
				   enum ibv_qp_type type, const struct ibv_qp_cap &cap)
	{
		struct hartebeest_qp_attr attr;
		struct ibv_qp *qp;

		hartebeest_qp_attr_init(&attr);
		attr.pd = pd.name().c_str();
		attr.send_cq = send.name().c_str();
		attr.recv_cq = recv.name().c_str();
		attr.type = type;
		attr.cap = cap;
		check(hartebeest_qp_create(pd.context_handle(), name.c_str(), &attr, &qp));
		return qp;
	}

	static struct ibv_qp *made(const protection_domain &pd, const std::string &name,
				   const completion_queue &send, const completion_queue &recv,
				   const shared_receive_queue &srq, enum ibv_qp_type type,
				   const struct ibv_qp_cap &cap)
	{
		struct ibv_qp_init_attr attr = ibv_qp_init_attr();
		struct ibv_qp *qp;

		attr.send_cq = send.get();
		attr.recv_cq = recv.get();
		attr.srq = srq.get();
		attr.qp_type = type;
		attr.cap = cap;
		check(hartebeest_qp_create_verbs(pd.context_handle(), name.c_str(),
						pd.name().c_str(), &attr, &qp));
		return qp;
	}

	/* C code calls it, so no exception may leave it. */
	static int post_receives(void *data, struct ibv_qp *qp)
	{
		try {
			return static_cast<detail::object_state *>(data)->refill(qp);
		} catch (...) {
			return -ECANCELED;
		}
	}
};

/* ---------------------------------------------------------------- pairs --- */

/*
 * Connects many queue pairs to their peers at once, by hartebeest_pairs_connect().  Holds
 * copies of all texts, and owners of the queue pairs and regions.
 */
class pair_list {
public:
	explicit pair_list(const context &context)
		: hb(context.get()), owners({ context.owner() }) {}

	pair_list(pair_list &&) = default;
	pair_list &operator=(pair_list &&) = default;

	/* @room: number of the peer's regions to receive; not 0: at least one must arrive. */
	void add(const queue_pair &qp, const std::string &key, const std::string &peer_key,
		 uint32_t room = 0)
	{
		struct hartebeest_pair pair;

		hartebeest_pair_init(&pair);
		pair.qp = keep(qp.name());
		pair.key = keep(key);
		pair.peer_key = keep(peer_key);
		rooms.emplace_back(room);
		pair.regions = rooms.back().data();
		pair.region_room = room;
		offers.emplace_back();
		owners.push_back(qp.owner());
		pairs.push_back(pair);
	}

	/* Offers a region to the peer of the pair that was added last. */
	void offer(const memory_region &region)
	{
		if (pairs.empty())
			throw error(EINVAL, "region '" + region.name() + "' is offered to no "
				    "peer: add() a pair first");
		offers.back().push_back(keep(region.name()));
		pairs.back().offer = offers.back().data();
		pairs.back().offer_count++;
		owners.push_back(region.owner());
	}

	/* Tries all pairs, then throws the first failure.  Another call continues. */
	bool connect(int64_t deadline = 0)
	{
		return check_once(hartebeest_pairs_connect(hb, pairs.data(), pairs.size(),
							   deadline));
	}

	/* What the peers must know, by hartebeest_qp_export(), for import_from() there. */
	std::string export_to()
	{
		std::size_t size = 0;
		std::string bytes;

		check(hartebeest_qp_export(hb, pairs.data(), pairs.size(), nullptr, &size));
		bytes.resize(size);
		check(hartebeest_qp_export(hb, pairs.data(), pairs.size(), &bytes[0], &size));
		bytes.resize(size);
		return bytes;
	}

	/*
	 * Connects to the peers that exported @bytes, by hartebeest_qp_import().  Tries all pairs,
	 * then throws the first failure.  Returns how many are not confirmed yet.
	 */
	std::size_t import_from(const std::string &bytes, int64_t deadline = 0)
	{
		return static_cast<std::size_t>(
			check(hartebeest_qp_import(hb, pairs.data(), pairs.size(), bytes.data(),
						   bytes.size(), deadline)));
	}

	/* After connect(): result, reason, peer and region_count of each pair. */
	size_t size() const { return pairs.size(); }
	const struct hartebeest_pair &operator[](size_t index) const { return pairs[index]; }

	/*
	 * A region of the peer; they are numbered from 0, in the order in which it
	 * offered them.
	 */
	const struct hartebeest_remote_mr &region(size_t index, size_t number = 0) const
	{
		if (number >= pairs.at(index).region_count || number >= rooms[index].size())
			throw error(ENOENT, "the peer '" + std::string(pairs[index].peer_key) +
				    "' offers no region " + std::to_string(number));
		return rooms[index][number];
	}

private:
	struct hartebeest_context *hb;
	detail::parents owners;
	std::deque<std::string> texts;
	std::deque<std::vector<struct hartebeest_remote_mr>> rooms;
	std::deque<std::vector<const char *>> offers;
	std::vector<struct hartebeest_pair> pairs;

	const char *keep(const std::string &text)
	{
		texts.push_back(text);
		return texts.back().c_str();
	}
};

/* ----------------------------------------------------------------- mesh --- */

namespace detail {

/* A list of ranks: all of them until name() is called, which may name none. */
class rank_list {
public:
	void name(const std::vector<int32_t> &named)
	{
		is_named = true;
		ids = named;
	}

	/* In the form of the C interface: null means all. */
	const int32_t *data() const
	{
		static const int32_t none = 0;

		return !is_named ? nullptr : ids.empty() ? &none : ids.data();
	}

	uint32_t size() const { return static_cast<uint32_t>(ids.size()); }

private:
	bool is_named = false;
	std::vector<int32_t> ids;
};

} /* namespace detail */

/*
 * The attributes of a mesh.  Set the plain members of attr, such as qps_per_peer, type,
 * cap and own_rank, directly.  Set names, lists and functions by the methods, which keep
 * copies.
 */
class mesh_attr {
public:
	struct hartebeest_mesh_attr attr;

	mesh_attr() : attr() { hartebeest_mesh_attr_init(&attr); }

	void use(const protection_domain &object)
	{
		pd = object.name();
		owners.push_back(object.owner());
	}

	void use(const completion_queue &object)
	{
		cq = object.name();
		owners.push_back(object.owner());
	}

	/* Offers a region to all ranks, in the order of these calls. */
	void offer(const memory_region &region)
	{
		regions.push_back(region.name());
		owners.push_back(region.owner());
	}

	/* Ids of the ranks that take part, ascending. */
	void among(const std::vector<int32_t> &ids) { ranks.name(ids); }

	/* Ids to connect to, ascending; may be empty.  Each peer must name this rank, too. */
	void connect_to(const std::vector<int32_t> &ids) { peers.name(ids); }

	/* Called each second while ranks are missing; must not throw. */
	void progress(std::function<void(const char *text)> tell)
	{
		tell_progress = std::move(tell);
	}

	/* The program's own exchange, instead of Memcached, among attr.rank_count ranks. */
	void gather(std::function<int(const void *mine, void *all, size_t length)> exchange)
	{
		gather_all = std::move(exchange);
	}

	/* @post posts the receives of each queue pair.  rank -1: UD. */
	void refill(std::function<int(int rank, struct ibv_qp *qp)> post)
	{
		post_receives = std::move(post);
	}

private:
	friend class mesh;

	std::string pd, cq;
	std::vector<std::string> regions;
	detail::rank_list ranks, peers;
	detail::parents owners;
	std::function<void(const char *)> tell_progress;
	std::function<int(const void *, void *, size_t)> gather_all;
	std::function<int(int, struct ibv_qp *)> post_receives;
};

/* Ranks connected to each other by hartebeest_mesh_connect(). */
class mesh {
public:
	/* Collective. */
	mesh(const context &context, const std::string &name,
	     const mesh_attr &request = mesh_attr(), int64_t deadline = 0)
		: held(new state(context.owner(), request))
	{
		std::vector<const char *> regions;
		struct hartebeest_mesh_attr attr = request.attr;

		for (const std::string &region : held->request.regions)
			regions.push_back(region.c_str());
		if (!regions.empty()) {
			attr.regions = regions.data();
			attr.region_count = static_cast<uint32_t>(regions.size());
		}
		if (request.ranks.data()) {
			attr.ranks = request.ranks.data();
			attr.rank_count = request.ranks.size();
		}
		if (request.peers.data()) {
			attr.peers = request.peers.data();
			attr.peer_count = request.peers.size();
		}
		if (request.tell_progress) {
			attr.progress = progress;
			attr.progress_data = held.get();
		}
		if (!request.pd.empty())
			attr.pd = request.pd.c_str();
		if (!request.cq.empty())
			attr.cq = request.cq.c_str();
		if (request.gather_all) {
			attr.gather = gather;
			attr.gather_data = held.get();
		}
		if (request.post_receives) {
			attr.refill = refill;
			attr.refill_data = held.get();
		}
		check(hartebeest_mesh_connect(context.get(), name.c_str(), &attr, &held->handle,
					      deadline));
	}

	mesh(mesh &&) = default;
	mesh &operator=(mesh &&) = default;

	struct hartebeest_mesh *get() const { return held->handle; }

	/*
	 * Null for the local rank, a rank that is not in the mesh, and one that is not a
	 * peer.
	 */
	struct ibv_qp *qp(int rank, int index = 0) const
	{
		return hartebeest_mesh_qp(get(), rank, index);
	}

	struct ibv_cq *cq() const { return hartebeest_mesh_cq(get()); }
	struct ibv_pd *pd() const { return hartebeest_mesh_pd(get()); }

	struct hartebeest_remote_mr region(int rank, int index = 0) const
	{
		struct hartebeest_remote_mr found;

		check(hartebeest_mesh_region(get(), rank, index, &found));
		return found;
	}

	/* UD: where a message to this rank goes. */
	struct hartebeest_ud_address address(int rank) const
	{
		struct hartebeest_ud_address found;

		check(hartebeest_mesh_ud_address(get(), rank, &found));
		return found;
	}

	bool barrier(int64_t deadline = 0)
	{
		return check_once(hartebeest_mesh_barrier(get(), deadline));
	}

	/* Returns the number of ranks replaced. */
	int repair(int64_t deadline = 0) { return check(hartebeest_mesh_repair(get(), deadline)); }

	struct hartebeest_mesh_stats stats() const
	{
		struct hartebeest_mesh_stats found;

		check(hartebeest_mesh_stats_get(get(), &found));
		return found;
	}

private:
	/* Must not move: the mesh's callbacks get its address. */
	struct state {
		std::shared_ptr<const void> owner;
		mesh_attr request;
		struct hartebeest_mesh *handle;

		state(std::shared_ptr<const void> keeper, const mesh_attr &wanted)
			: owner(std::move(keeper)), request(wanted), handle(nullptr) {}
		state(const state &) = delete;
		state &operator=(const state &) = delete;

		~state() { hartebeest_mesh_close(handle); }
	};

	std::unique_ptr<state> held;

	static void progress(void *data, const char *text)
	{
		static_cast<state *>(data)->request.tell_progress(text);
	}

	/* C code calls them, so no exception may leave them. */
	static int gather(void *data, const void *mine, void *all, size_t length)
	{
		try {
			return static_cast<state *>(data)->request.gather_all(mine, all, length);
		} catch (...) {
			return -ECANCELED;
		}
	}

	static int refill(void *data, int rank, struct ibv_qp *qp)
	{
		try {
			return static_cast<state *>(data)->request.post_receives(rank, qp);
		} catch (...) {
			return -ECANCELED;
		}
	}
};

} /* namespace hartebeest */

#endif
