// A private member, by way of explicit instantiation [C++20 temp.spec.general]: after
// WEIR_EXPOSE(Tag, Class::member), `object.*inner(Tag{})` is that member.
#pragma once

#define WEIR_EXPOSE(Tag, member)                         \
  struct Tag {                                           \
    friend constexpr auto inner(Tag);                    \
  };                                                     \
  template <auto pointer>                                \
  struct Tag##Exposer {                                  \
    friend constexpr auto inner(Tag) { return pointer; } \
  };                                                     \
  template struct Tag##Exposer<&member>
